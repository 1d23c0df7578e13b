//! Four tools that calculate: to try tool calls without side effects.

use async_trait::async_trait;
use serde_json::{Value, json};

use crate::capabilities::Capability;
use crate::tools::{SideEffectClass, Tool, ToolExecutionResult, ToolHints};

/// Adds, subtracts, multiplies and divides.
#[derive(Debug, Clone, Copy, Default)]
pub struct TestMathCapability;

impl Capability for TestMathCapability {
    fn id(&self) -> &str {
        "test_math"
    }
    fn name(&self) -> &str {
        "Test Math"
    }
    fn description(&self) -> &str {
        "Calculates with two numbers; meant for tests and first steps."
    }
    fn category(&self) -> Option<&str> {
        Some("Testing")
    }
    fn tools(&self) -> Vec<Box<dyn Tool>> {
        [
            Operation::Add,
            Operation::Subtract,
            Operation::Multiply,
            Operation::Divide,
        ]
        .into_iter()
        .map(|operation| Box::new(operation) as Box<dyn Tool>)
        .collect()
    }
}

#[derive(Debug, Clone, Copy)]
enum Operation {
    Add,
    Subtract,
    Multiply,
    Divide,
}

impl Operation {
    fn apply(self, a: f64, b: f64) -> Result<f64, &'static str> {
        match self {
            Self::Add => Ok(a + b),
            Self::Subtract => Ok(a - b),
            Self::Multiply => Ok(a * b),
            Self::Divide if b == 0.0 => Err("Division by zero"),
            Self::Divide => Ok(a / b),
        }
    }
}

#[async_trait]
impl Tool for Operation {
    fn name(&self) -> &str {
        match self {
            Self::Add => "add",
            Self::Subtract => "subtract",
            Self::Multiply => "multiply",
            Self::Divide => "divide",
        }
    }
    fn description(&self) -> &str {
        match self {
            Self::Add => "Add two numbers.",
            Self::Subtract => "Subtract b from a.",
            Self::Multiply => "Multiply two numbers.",
            Self::Divide => "Divide a by b.",
        }
    }
    fn parameters_schema(&self) -> Value {
        json!({
            "type": "object",
            "properties": { "a": { "type": "number" }, "b": { "type": "number" } },
            "required": ["a", "b"],
            "additionalProperties": false
        })
    }
    fn hints(&self) -> ToolHints {
        ToolHints::default()
            .with_readonly(true)
            .with_side_effect_class(SideEffectClass::Pure)
    }
    async fn execute(&self, arguments: Value) -> ToolExecutionResult {
        let number = |name: &str| arguments.get(name).and_then(Value::as_f64);
        let (Some(a), Some(b)) = (number("a"), number("b")) else {
            return ToolExecutionResult::tool_error("`a` and `b` must be numbers");
        };
        match self.apply(a, b) {
            Ok(result) => ToolExecutionResult::success(
                json!({ "result": result, "operation": self.name(), "a": a, "b": b }),
            ),
            Err(message) => ToolExecutionResult::tool_error(message),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_four_operations() {
        for (operation, result) in [
            (Operation::Add, 9.0),
            (Operation::Subtract, 3.0),
            (Operation::Multiply, 18.0),
            (Operation::Divide, 2.0),
        ] {
            let ToolExecutionResult::Success(value) =
                operation.execute(json!({"a": 6, "b": 3})).await
            else {
                panic!("{operation:?} failed");
            };
            assert_eq!(
                value,
                json!({"result": result, "operation": operation.name(), "a": 6.0, "b": 3.0})
            );
        }
        assert!(
            Operation::Divide
                .execute(json!({"a": 1, "b": 0}))
                .await
                .is_error()
        );
    }
}
