//! What a field of an error body is for, told by its name.

/// What a field is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// A code: number or word.
    Code,
    /// A type-like word.
    Type,
    /// An HTTP status.
    Status,
    /// `status`: a number or a word.
    StatusOrType,
    /// Speaks to people.
    Message,
    /// Quotes somebody else's error.
    Quote,
    /// Names the provider that is quoted.
    Provider,
    /// Response headers.
    Headers,
    /// Why a model stopped.
    Finish,
    /// Errors, or the client's own conversation: told by what is in it.
    Messages,
    /// The alternatives of a model's answer.
    Choices,
    /// The client's own request, or a model's output: never read.
    Skip,
    /// Anything else: looked into if it is an object.
    Other,
}

/// The role of a field. Case, underscores and dashes do not matter.
pub(super) fn role(key: &str) -> Role {
    let mut name = [0u8; 24];
    let mut length = 0;
    for byte in key.bytes().filter(u8::is_ascii_alphanumeric) {
        let Some(slot) = name.get_mut(length) else {
            return Role::Other;
        };
        *slot = byte.to_ascii_lowercase();
        length += 1;
    }
    match name.get(..length).unwrap_or_default() {
        b"code" | b"errorcode" | b"errcode" | b"errno" | b"ret" | b"retcode" | b"statuscode"
        | b"errorsubcode" => Role::Code,
        b"httpstatus" | b"httpcode" | b"httpstatuscode" | b"originalstatuscode" | b"apierrorstatus" => {
            Role::Status
        }
        b"status" => Role::StatusOrType,
        b"type" | b"errortype" | b"reason" | b"kind" | b"name" | b"exception" | b"limitsource"
        | b"statusname" | b"subtype" | b"category" | b"errorstatus" | b"errorname" | b"errorreason" => {
            Role::Type
        }
        b"message" | b"msg" | b"error" | b"errors" | b"errormsg" | b"errormessage" | b"errmsg"
        | b"statusmsg" | b"statusmessage" | b"detail" | b"details" | b"description" | b"errordescription"
        | b"title" | b"hint" | b"cause" | b"result" | b"failurereason" | b"info" | b"statustext"
        | b"originalmessage" | b"quotaid" | b"quotametric" | b"exceptionmessage" | b"errordetail"
        | b"errordetails" | b"failure" | b"fault" | b"faultstring" | b"errorinfo" | b"usermessage"
        | b"reasonphrase" | b"mensaje" | b"mensagem" | b"messaggio" | b"nachricht" | b"fehler"
        | b"fehlermeldung" | b"erreur" | b"errore" | b"erro" => Role::Message,
        b"raw" | b"upstreamerror" | b"originalerror" | b"providererror" | b"rawerror"
        | b"upstreammessage" | b"upstreamresponse" | b"errorbody" | b"responsebody" => Role::Quote,
        b"providername" | b"provider" | b"upstreamprovider" | b"llmprovider" => Role::Provider,
        b"headers" | b"responseheaders" => Role::Headers,
        b"finishreason" | b"stopreason" | b"nativefinishreason" | b"blockreason" => Role::Finish,
        b"choices" | b"candidates" => Role::Choices,
        b"messages" => Role::Messages,
        b"input"
        | b"prompt"
        | b"content"
        | b"flaggedinput"
        | b"failedgeneration"
        | b"request"
        | b"requestbody"
        | b"received"
        | b"arguments"
        | b"instructions"
        | b"output"
        | b"tools"
        | b"usage"
        | b"patterns"
        | b"ctx"
        | b"loc"
        | b"stack"
        | b"stacktrace"
        | b"traceback"
        | b"links"
        | b"safetyratings"
        | b"contentfilterresult"
        | b"query"
        | b"body"
        | b"url"
        | b"previouserrors" => Role::Skip,
        _ => Role::Other,
    }
}
