//! A daemon, a browser that is signed in, and a model that follows a script.

use serde_json::{Value, json};
use tokio::runtime::Runtime;
use windlass_testkit::{
    After, Answer, Browser, Daemon, FakeServer, Home, Reply, Request, TOKEN, Wire,
};

/// A browser at a daemon's console.
pub(crate) struct Console {
    pub(crate) browser: Browser,
    pub(crate) daemon: Daemon,
}

impl Console {
    /// Starts a daemon and signs in; `None` without a browser.
    #[track_caller]
    pub(crate) fn open(test: &str, home: &Home) -> Option<Self> {
        let browser = Browser::start(test)?;
        let console = Self {
            browser,
            daemon: home.start(),
        };
        console.sign_in();
        Some(console)
    }

    /// The address of a page.
    pub(crate) fn url(&self, page: &str) -> String {
        format!("http://{}/console{page}", self.daemon.client.address)
    }

    #[track_caller]
    pub(crate) fn go(&self, page: &str) {
        self.browser.open(&self.url(page));
    }

    #[track_caller]
    pub(crate) fn sign_in(&self) {
        self.go("/login");
        self.browser
            .until("document.querySelector('input[name=token]')");
        self.browser.type_text("input[name=token]", TOKEN);
        self.browser.click(".login button");
        self.browser.until("document.querySelector('.waits')");
    }

    /// The page's text.
    #[track_caller]
    pub(crate) fn text(&self) -> String {
        let text = self.browser.run("return document.body.innerText", &[]);
        text.as_str().unwrap().to_owned()
    }

    #[track_caller]
    pub(crate) fn shows(&self, text: &str) {
        shows(&self.browser, text);
    }

    /// Waits until a turn has a status.
    #[track_caller]
    pub(crate) fn turn_becomes(&self, turn: &str, status: &str) {
        let thread = turn.split("/turns/").next().unwrap();
        let mut events = self.daemon.client.events(thread, 0);
        let ended = loop {
            let ended = events.until("turn.completed").pop().unwrap().data;
            if ended["turn_id"] == id_of(turn) {
                break ended;
            }
        };
        assert_eq!(ended["payload"]["turn"]["status"], status);
    }
}

/// Waits until the page shows a text.
#[track_caller]
pub(crate) fn shows(browser: &Browser, text: &str) {
    let text = Value::from(text);
    browser.until(&format!("document.body.innerText.includes({text})"));
}

/// Returns a home whose model is the built-in demonstration.
pub(crate) fn demonstration() -> Home {
    let mut home = Home::new();
    home.variables = vec![("WINDLASS_MODEL".to_owned(), "demonstration".to_owned())];
    home
}

/// A model with its own runtime.
pub(crate) struct Model {
    server: FakeServer,
    _runtime: Runtime,
}

impl Model {
    /// Starts a model that gives these answers one after the other: the number of results in the request selects the next one.
    pub(crate) fn answering(answers: Vec<Answer>) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread();
        let runtime = { runtime }.worker_threads(1).enable_all().build().unwrap();
        let reply = move |request: &Request| {
            let number = request
                .json()
                .to_string()
                .matches("\"type\":\"tool_result\"")
                .count();
            let answer = answers.get(number).unwrap_or(&answers[answers.len() - 1]);
            Reply {
                status: 200,
                headers: Vec::new(),
                chunks: Wire::Anthropic.events(answer),
                after: After::End,
            }
        };
        let server = runtime.block_on(FakeServer::answering(reply)).unwrap();
        Self {
            server,
            _runtime: runtime,
        }
    }

    pub(crate) fn home(&self) -> Home {
        Home::with_model(&self.server.url())
    }
}

/// The ID in a path of a thread or turn.
pub(crate) fn id_of(path: &str) -> &str {
    path.rsplit('/').next().unwrap()
}

/// A call with arguments.
pub(crate) fn calling(name: &str, arguments: &Value) -> Answer {
    Answer::default().with_call("toolu_1", name, &[&arguments.to_string()])
}

/// A titled thread.
#[track_caller]
pub(crate) fn titled(daemon: &Daemon, title: &str) -> String {
    daemon.thread(&json!({ "title": title }))
}
