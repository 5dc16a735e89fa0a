//! The memory engine is the model, so it passes the suite too.

use switchboard_store::conformance;
use switchboard_store::memory::MemoryEngine;

#[test]
fn memory_passes_the_conformance_suite() {
    conformance::run(&mut |clock| Box::new(MemoryEngine::new(Box::new(clock))));
}
