//! A name with several addresses, some of which are gone, and a name that comes to lead elsewhere.

use std::net::SocketAddr;
use std::time::Duration;

use greylag::exchange::Origin;
use greylag::upstream::{Call, Limits, Pool, Reach, Speaks, Target};
use greylag_filters::framing::Framing;
use greylag_filters::rules::engine::{PoolRule, TlsRule};
use greylag_sim::refusing_address;
use pingora_http::RequestHeader;

use crate::harness::{connections, sim, within};

/// A place whose name is not looked up by the system.
struct Named {
    target: Target,
    pool: Pool,
    clock: Origin,
}

impl Named {
    fn new() -> Named {
        let address = "http://engine.test:80".parse().unwrap();
        Named {
            target: Target::new(
                "a".into(),
                address,
                Speaks::Http1,
                &TlsRule::default(),
                Default::default(),
            ),
            pool: Pool::default(),
            clock: Origin::seeded(7),
        }
    }

    /// From now on the name leads there.
    async fn leads_to(&self, addresses: &[SocketAddr]) {
        let looked_up = async |host: &str, port: u16| {
            assert_eq!((host, port), ("engine.test", 80));
            Ok(addresses.to_vec())
        };
        self.target.resolve_by(looked_up).await.unwrap();
    }

    /// Asks the place, over a connection of the pool if there is one, and gives it back.
    async fn ask(&self) -> u16 {
        let limits = Limits {
            connect: Duration::from_secs(5),
            pool: PoolRule::default().limits(),
        };
        let open = Call::open(&self.pool, &self.target, limits, Reach::Any, &self.clock);
        let mut call = within("a connection", open).await.unwrap();
        let mut head = RequestHeader::build("GET", b"/version", None).unwrap();
        head.insert_header("host", "engine.test").unwrap();
        call.write_head(&head, Framing::None).unwrap();
        let status = call.read_head().await.unwrap().status.as_u16();
        let mut body = Vec::new();
        while call.read(&mut body).await.unwrap() {}
        call.release(&self.pool);
        status
    }
}

#[tokio::test]
async fn all_addresses_are_used_in_turn_and_one_that_is_gone_is_left_out() {
    let (one, two) = (sim().await, sim().await);
    let named = Named::new();
    named.leads_to(&[one.address(), two.address()]).await;
    for _ in 0..10 {
        assert_eq!(named.ask().await, 200);
    }
    for engine in [&one, &two] {
        let asked = engine.seen().requests.len();
        assert_eq!((asked, connections(engine)), (5, 1));
    }
    let gone = two.address();
    two.stop().await;
    for _ in 0..10 {
        assert_eq!(named.ask().await, 200);
    }
    assert_eq!(one.seen().requests.len(), 15);
    let left_out: Vec<(SocketAddr, bool)> = named.target.known().each(named.clock.now()).collect();
    assert_eq!(left_out, [(one.address(), false), (gone, true)]);
    // One address of two is no failure of the engine.
    assert!(named.target.standing.is_up());
}

#[tokio::test]
async fn a_name_that_comes_to_lead_elsewhere_fails_nobody() {
    let (old, new) = (sim().await, sim().await);
    let nobody = refusing_address().await.unwrap();
    let named = Named::new();
    named.leads_to(&[old.address()]).await;
    let load = async {
        for _ in 0..200 {
            assert_eq!(named.ask().await, 200);
            tokio::task::yield_now().await;
        }
    };
    let change = async {
        let (half, deadline) = (50, crate::harness::DEADLINE);
        assert!(
            old.wait_for(|seen| seen.requests.len() >= half, deadline)
                .await
        );
        named.leads_to(&[nobody.address(), new.address()]).await;
    };
    tokio::join!(load, change);
    assert!(!new.seen().requests.is_empty());
    let all = old.seen().requests.len() + new.seen().requests.len();
    assert_eq!(all, 200);
    // A name that leads nowhere any more leads where it did.
    let nowhere = named.target.resolve_by(async |_, _| Ok(Vec::new())).await;
    assert!(nowhere.is_err());
    assert_eq!(named.ask().await, 200);
}
