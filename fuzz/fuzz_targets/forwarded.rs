//! `Forwarded` and `X-Forwarded-For`: the element that a proxy appends is parsed, whatever the client has sent before it.
#![no_main]

use libfuzzer_sys::fuzz_target;
use rudy_http::semantics::forwarded::{Node, elements_from_right};

fuzz_target!(|forged: &[u8]| {
    let address = "2001:db8::7".parse().expect("an address");
    for added in [&b"for=\"[2001:db8::7]:80\";proto=https"[..], b"x=\"\\\",\";For=\"[2001:db8::7]:80\""] {
        let value = [forged, b",", added].concat();
        let mut elements = elements_from_right(&value);
        let last = elements.next().expect("the added element").expect("a valid element");
        assert_eq!(last.node, Some(Node::Address(address, Some(80))));
        // Each other element has at least one byte.
        assert!(elements.count() <= forged.len());
    }
    for member in forged.split(|byte| *byte == b',') {
        if let Some(Node::Address(address, _)) = Node::from_x_forwarded_for(member) {
            assert_eq!(address, address.to_canonical());
        }
    }
});
