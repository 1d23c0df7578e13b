//! Models: the contract of a driver, its registry, and the simulator.

pub mod llm_driver_registry;
pub mod llm_models;
pub mod llmsim_driver;
pub mod runtime_agent;
pub mod runtime_context;
