//! Fakes for the tests of Windlass.
