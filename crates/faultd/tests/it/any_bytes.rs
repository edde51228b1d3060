//! Whatever bytes come, in whatever pieces: the provider answers or closes, and goes on.

use backstop_faultd::{Faultd, Script};
use proptest::prelude::*;

use crate::client::{Client, ask, get};

fn run(future: impl Future<Output = ()>) {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future);
}

/// Bytes that look like a request for a while.
fn nearly_a_request() -> impl Strategy<Value = Vec<u8>> {
    let words = prop::sample::select(vec![
        "POST /v1/chat/completions HTTP/1.1\r\n",
        "GET /v1beta/models/x:y?key=&key=%zz HTTP/1.1\r\n",
        "content-length: 5\r\n",
        "content-length: 99999999999999999999\r\n",
        "transfer-encoding: chunked\r\n",
        "authorization: Bearer \r\n",
        "expect: 100-continue\r\n",
        "ffffffffffffffff\r\n",
        "5;a\r\nhello\r\n",
        "0\r\n",
        "\r\n",
        ":",
        "{\"model\":\"\\ud800\"}",
        "\0\u{fffd}",
    ]);
    prop::collection::vec(words, 0..12).prop_map(|words| words.concat().into_bytes())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn nonsense_harms_nobody(bytes in prop_oneof![prop::collection::vec(any::<u8>(), 0..400), nearly_a_request()]) {
        run(async {
            let provider = Faultd::start(Script::new()).await.unwrap();
            let mut client = Client::connect(provider.addr()).await;
            client.send(&bytes).await;
            client.half_close().await;
            client.drain().await;
            let (answer, _) = ask(&provider, get("/v1/models")).await;
            assert!(answer.starts_with("HTTP/1.1 200 OK"), "{answer}");
        });
    }

    #[test]
    fn pieces_do_not_matter(cuts in prop::collection::vec(0_usize..300, 0..6)) {
        run(async {
            let provider = Faultd::start(Script::new()).await.unwrap();
            let bytes = "POST /v1/messages HTTP/1.1\r\nx-api-key: k\r\ntransfer-encoding: chunked\r\n\r\n\
                         c\r\n{\"model\":\"a\"\r\n1\r\n}\r\n0\r\n\r\n\
                         POST /v1/responses HTTP/1.1\r\nx-api-key: k\r\ncontent-length: 13\r\nconnection: close\r\n\r\n\
                         {\"model\":\"b\"}";
            let mut client = Client::connect(provider.addr()).await;
            let mut cuts: Vec<usize> = cuts.iter().map(|cut| *cut % bytes.len()).collect();
            cuts.sort_unstable();
            let mut from = 0;
            for cut in cuts.into_iter().chain([bytes.len()]) {
                client.send(&bytes[from..cut]).await;
                tokio::task::yield_now().await;
                from = cut;
            }
            client.read_all().await;
            let models: Vec<_> = provider.log().into_iter().map(|call| call.model).collect();
            assert_eq!(models, [Some("a".to_string()), Some("b".to_string())]);
        });
    }
}
