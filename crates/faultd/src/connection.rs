//! One connection's life: request, decision, delivery, and again.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::BytesMut;
use tokio::net::TcpStream;

use crate::provider::{Asked, CallEnd, Choice, Provider};
use crate::render::{Aspect, Delivery, Part};
use crate::reply::{How, Point, Reply};
use crate::request::{BODY_LIMIT, BadRequest, BodyLength, Head, Request, take_chunks};
use crate::script::Greeting;
use crate::wire::{Gone, Stream, Wire};

/// Serves one connection until it ends.
pub(crate) async fn serve(stream: TcpStream, provider: Arc<Provider>) {
    let _ = stream.set_nodelay(true);
    let (number, greeting) = provider.greet();
    let plain = Wire::new(Stream::Plain(stream));
    match greeting {
        Some(Greeting::Silent) => return std::future::pending().await,
        Some(Greeting::Reset) => return plain.reset(),
        Some(Greeting::Close) => return plain.close().await,
        None => {}
    }
    #[cfg(feature = "tls")]
    let plain = match plain.secured(provider.tls()).await {
        Ok(wire) => wire,
        Err(Gone) => return provider.malformed(),
    };
    let mut wire = plain;
    let mut rendered = None;
    loop {
        let request = match read(&mut wire).await {
            Ok(request) => request,
            Err(Unread::Gone) => return,
            Err(Unread::Bad(reason)) => {
                provider.malformed();
                let _ = wire.send(refusal(&reason).as_bytes()).await;
                return wire.close().await;
            }
        };
        match answer(&mut wire, &request, (&provider, number), &mut rendered).await {
            Next::Request => {}
            Next::Leave => return,
            Next::Close => return wire.close().await,
            Next::Reset => return wire.reset(),
        }
    }
}

enum Unread {
    Gone,
    Bad(BadRequest),
}

enum Next {
    Request,
    Leave,
    Close,
    Reset,
}

/// What was rendered last: most connections ask for the same thing again and again.
struct Rendered {
    generation: u64,
    choice: Choice,
    aspect: Aspect,
    delivery: Delivery,
}

async fn answer(
    wire: &mut Wire,
    request: &Request,
    (provider, connection): (&Provider, u64),
    rendered: &mut Option<Rendered>,
) -> Next {
    let aspect = Asked::aspect(request);
    let decision = provider.decide(&Asked { request, connection, aspect: &aspect });
    let reply = decision.reply();
    let fits = rendered.as_ref().is_some_and(|last| {
        decision.extra.is_empty()
            && last.generation == decision.generation
            && last.choice == decision.choice
            && last.aspect == aspect
    });
    if !fits {
        let delivery = Delivery::render(reply, &aspect, decision.models(), &decision.extra);
        // What the moment adds must not be served again.
        let generation = if decision.extra.is_empty() { decision.generation } else { u64::MAX };
        *rendered = Some(Rendered { generation, choice: decision.choice.clone(), aspect, delivery });
    }
    let delivery = &rendered.as_ref().expect("rendered above").delivery;
    match deliver(wire, reply, delivery).await {
        Ok(Sent::Whole) => {
            provider.ended(decision.number, CallEnd::Complete);
            if delivery.keep_alive { Next::Request } else { Next::Close }
        }
        Ok(Sent::UpTo(how)) => {
            if how == How::Hang {
                wire.hang().await;
            }
            provider.ended(decision.number, CallEnd::Cut);
            match how {
                How::Hang => Next::Leave,
                How::Close | How::End => Next::Close,
                How::Reset => Next::Reset,
            }
        }
        Err(Gone) => {
            provider.ended(decision.number, CallEnd::Gone);
            Next::Leave
        }
    }
}

async fn read(wire: &mut Wire) -> Result<Request, Unread> {
    let head = loop {
        match Head::take(&mut wire.input) {
            Ok(Some(head)) => break head,
            Ok(None) => wire.fill().await.map_err(|Gone| Unread::Gone)?,
            Err(reason) => return Err(Unread::Bad(reason)),
        }
    };
    if head.expects_continue {
        wire.send(b"HTTP/1.1 100 Continue\r\n\r\n").await.map_err(|Gone| Unread::Gone)?;
    }
    let body = match head.length {
        BodyLength::Known(length) if length > BODY_LIMIT => return Err(Unread::Bad(BadRequest::BodyTooLong)),
        BodyLength::Known(length) => {
            while wire.input.len() < length {
                wire.fill().await.map_err(|Gone| Unread::Gone)?;
            }
            wire.input.split_to(length)
        }
        BodyLength::Chunked => {
            let mut body = BytesMut::new();
            while !take_chunks(&mut wire.input, &mut body).map_err(Unread::Bad)? {
                wire.fill().await.map_err(|Gone| Unread::Gone)?;
            }
            body
        }
    };
    Ok(head.with_body(body.freeze()))
}

fn refusal(reason: &BadRequest) -> String {
    let reason = reason.to_string();
    let length = reason.len();
    format!(
        "HTTP/1.1 400 Bad Request\r\ncontent-type: text/plain\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{reason}"
    )
}

/// How far a delivery went.
enum Sent {
    Whole,
    UpTo(How),
}

async fn deliver(wire: &mut Wire, reply: &Reply, delivery: &Delivery) -> Result<Sent, Gone> {
    if let Some(whole) = &delivery.whole {
        wire.send(whole).await?;
        return Ok(Sent::Whole);
    }
    let drip = reply.waits.bytes;
    let cut = reply.cut.filter(|cut| cut.how != How::End);
    let cut_at = |point: Point| cut.filter(|cut| cut.at == point).map(|cut| Sent::UpTo(cut.how));
    wire.pause(reply.waits.headers).await?;
    if let Some(sent) = cut_at(Point::Request) {
        return Ok(sent);
    }
    send(wire, &delivery.preface, drip).await?;
    send(wire, &delivery.status_line, drip).await?;
    if let Some(sent) = cut_at(Point::Status) {
        return Ok(sent);
    }
    send_filler(wire, reply.filler_headers).await?;
    send(wire, &delivery.headers, drip).await?;
    for (index, part) in delivery.parts.iter().enumerate() {
        if let Some((stop, bytes)) = delivery.stop
            && stop == index
        {
            send(wire, &part.bytes[..bytes.min(part.bytes.len())], drip).await?;
            break;
        }
        wire.pause(if index == 0 { reply.waits.first_event } else { reply.waits.events }).await?;
        match part.stamp_at {
            Some(at) => send(wire, &stamped(part, at), drip).await?,
            None => send(wire, &part.bytes, drip).await?,
        }
        tokio::task::coop::consume_budget().await;
    }
    match cut {
        Some(cut) => Ok(Sent::UpTo(cut.how)),
        None => send(wire, &delivery.tail, drip).await.map(|()| Sent::Whole),
    }
}

async fn send(wire: &mut Wire, bytes: &[u8], drip: Duration) -> Result<(), Gone> {
    if drip.is_zero() {
        return wire.send(bytes).await;
    }
    for byte in bytes {
        wire.send(std::slice::from_ref(byte)).await?;
        wire.pause(drip).await?;
    }
    Ok(())
}

async fn send_filler(wire: &mut Wire, count: u32) -> Result<(), Gone> {
    let mut number = 0_u64;
    while count == u32::MAX || number < u64::from(count) {
        wire.send(format!("x-filler-{number}: abcdefghijklmnopqrstuvwxyz\r\n").as_bytes()).await?;
        tokio::task::coop::consume_budget().await;
        number += 1;
    }
    Ok(())
}

fn stamped(part: &Part, at: usize) -> Vec<u8> {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let mut bytes = part.bytes.to_vec();
    let stamp = format!("{:019}", since.as_nanos());
    bytes[at..at + stamp.len()].copy_from_slice(stamp.as_bytes());
    bytes
}
