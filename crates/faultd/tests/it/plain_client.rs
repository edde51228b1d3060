//! The plain client tells whole answers from broken ones.

use backstop_faultd::{Client, Faultd, Framing, How, Point, Reply, Script, Trouble};

use crate::client::{CHAT, CHAT_STREAM, keep};

async fn ask(reply: Reply, body: &str) -> Result<(u16, String), Trouble> {
    let provider = Faultd::start(Script::new().otherwise(reply)).await.unwrap();
    let mut client = Client::new(provider.addr());
    let (head, body) = client.ask(keep("/v1/chat/completions", "k", body).as_bytes()).await?;
    Ok((head.status, String::from_utf8_lossy(&body).into_owned()))
}

#[tokio::test]
async fn whole_answers_come_without_their_framing() {
    for framing in [Framing::Length, Framing::Chunked, Framing::UntilClose] {
        let (status, body) = ask(Reply::json(200, "0123456789").framing(framing), CHAT).await.unwrap();
        assert_eq!((status, body.as_str()), (200, "0123456789"), "{framing:?}");
    }
    assert_eq!(ask(Reply::empty(204), CHAT).await.unwrap(), (204, String::new()));
    let (_, stream) = ask(Reply::answer().informational(2), CHAT_STREAM).await.unwrap();
    assert!(stream.starts_with("data: {") && stream.ends_with("data: [DONE]\n\n"), "{stream}");
}

#[tokio::test]
async fn broken_answers_are_told_apart() {
    let broken = async |reply| ask(reply, CHAT_STREAM).await.unwrap_err().to_string();
    assert_eq!(
        broken(Reply::answer().cut(Point::Content(1), How::Close)).await,
        "the connection was closed early"
    );
    assert_eq!(
        broken(Reply::answer().cut(Point::FinalChunk, How::Close)).await,
        "the connection was closed early"
    );
    assert_eq!(
        broken(Reply::json(200, "0123").framing(Framing::WrongLength(1))).await,
        "the connection was closed early"
    );
    assert_eq!(broken(Reply::reset()).await, "the connection broke");
    assert_eq!(
        broken(Reply::answer().framing(Framing::BadChunks)).await,
        "the answer is malformed: a chunk's size is no number"
    );
}

#[tokio::test]
async fn a_connection_is_kept_and_replaced_when_it_must_be() {
    let provider = Faultd::start(Script::new()).await.unwrap();
    let mut client = Client::new(provider.addr());
    let request = keep("/v1/chat/completions", "k", CHAT_STREAM);
    client.ask(request.as_bytes()).await.unwrap();
    client.ask(request.as_bytes()).await.unwrap();
    assert_eq!(provider.counters().connections, 1);
    provider.set_script(Script::new().otherwise(Reply::answer().closing()));
    client.ask(request.as_bytes()).await.unwrap();
    client.ask(request.as_bytes()).await.unwrap();
    assert_eq!(provider.counters().connections, 2);
}
