//! Four tools that calculate, for trying tool calls without side effects.

use async_trait::async_trait;
use serde_json::{Value, json};

use crate::capabilities::Capability;
use crate::tools::{SideEffectClass, Tool, ToolExecutionResult, ToolHints};

/// Adds, subtracts, multiplies and divides.
#[derive(Debug, Clone, Copy, Default)]
pub struct TestMathCapability;

impl Capability for TestMathCapability {
    described!(
        "test_math",
        "Test Math",
        "Calculates with two numbers; meant for tests and first steps.",
        "Testing",
    );
    fn tools(&self) -> Vec<Box<dyn Tool>> {
        TOOLS.map(|tool| Box::new(tool) as Box<dyn Tool>).into()
    }
}

/// Computes a number from two others.
#[derive(Debug, Clone, Copy)]
struct MathTool {
    name: &'static str,
    description: &'static str,
    apply: fn(f64, f64) -> Result<f64, &'static str>,
}

const TOOLS: [MathTool; 4] = [
    MathTool {
        name: "add",
        description: "Add two numbers.",
        apply: |a, b| Ok(a + b),
    },
    MathTool {
        name: "subtract",
        description: "Subtract b from a.",
        apply: |a, b| Ok(a - b),
    },
    MathTool {
        name: "multiply",
        description: "Multiply two numbers.",
        apply: |a, b| Ok(a * b),
    },
    MathTool {
        name: "divide",
        description: "Divide a by b.",
        apply: |a, b| {
            if b == 0.0 {
                Err("Division by zero")
            } else {
                Ok(a / b)
            }
        },
    },
];

#[async_trait]
impl Tool for MathTool {
    fn name(&self) -> &str {
        self.name
    }
    fn description(&self) -> &str {
        self.description
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
        match (self.apply)(a, b) {
            Ok(result) => ToolExecutionResult::success(
                json!({ "result": result, "operation": self.name, "a": a, "b": b }),
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
        for (tool, result) in TOOLS.iter().zip([9.0, 3.0, 18.0, 2.0]) {
            let ToolExecutionResult::Success(value) = tool.execute(json!({"a": 6, "b": 3})).await
            else {
                panic!("{tool:?} failed");
            };
            assert_eq!(
                value,
                json!({"result": result, "operation": tool.name, "a": 6.0, "b": 3.0})
            );
        }
        let [.., divide] = TOOLS;
        assert!(divide.execute(json!({"a": 1, "b": 0})).await.is_error());
    }
}
