//! One input, one answer, one stream.

use windlass_protocol::stream::OneShot;

use super::Answer;
use crate::http::body::Payload;
use crate::http::outflow::Outflow;
use crate::http::request::Asked;
use crate::sse;

pub(super) async fn one_shot(asked: Asked, outflow: Outflow, body: Payload<OneShot>) -> Answer {
    let mut turn = asked.one_shot(body.0).await?;
    let (frames, response) = sse::channel(outflow);
    let (stopping, revoked) = (asked.stopping.clone(), turn.revoked());
    tokio::spawn(async move {
        let sending = async {
            while let Some(frame) = turn.next().await {
                frames.send(frame.into()).await?;
            }
            Ok(())
        };
        tokio::select! {
            () = sse::until_stopped(&frames, &stopping, sending) => {}
            () = revoked.cancelled() => {}
        }
    });
    Ok(response)
}
