//! The step that compresses responses.

use std::io;
use std::sync::Arc;

use bytes::Bytes;
use http::StatusCode;
use rudy_client::{HeadOnlyBody, is_of_events};
use rudy_message::semantics::negotiation::Coding;
use rudy_pipeline::compression::fields::{self, Wanted};
use rudy_pipeline::compression::{
    CompressedBody, Compression, Effort, Encoder, INLINE_BYTES, Of, PIECE_BYTES, StoredContent, whole,
};
use rudy_pipeline::request_state::HasResponseState;
use rudy_pipeline::{Call, Flow, Kept, Passage, ResponseStep, Step};
use rudy_service::{Body, Reply, Response};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The compression of a site or a route.
#[derive(Debug)]
pub struct Compressor {
    options: Compression,
    /// Limits the memory of encoders.
    streams: Arc<Semaphore>,
    /// Live streams last long, so they must not use up all encoders.
    live_streams: Arc<Semaphore>,
}

/// The permits of an encoder. A live stream has two.
type Permits = (OwnedSemaphorePermit, Option<OwnedSemaphorePermit>);

impl Compressor {
    /// Prepares the compression of a table.
    #[must_use]
    pub fn new(options: &Compression) -> Self {
        Self {
            streams: Arc::new(Semaphore::new(options.streams)),
            live_streams: Arc::new(Semaphore::new(options.streams.div_ceil(2))),
            options: options.clone(),
        }
    }

    fn level(&self, coding: Coding) -> u8 {
        self.options.level(coding, Of::Responses)
    }

    /// Compresses a response if its client accepts that.
    fn compress(self: &Arc<Self>, mut response: Response, wanted: &Wanted) -> Reply {
        if response.is_final() {
            return response.into();
        }
        if response.status() == StatusCode::NOT_MODIFIED {
            fields::confirm(&mut response, wanted);
            return response.into();
        }
        if !fields::is_eligible(&response, wanted, &self.options) {
            return response.into();
        }
        fields::add_vary(&mut response);
        let coding = wanted.coding(self.options.codings(Of::Responses));
        if coding == Coding::Identity {
            return response.into();
        }
        if let Some(content) = response.take(|state| &mut state.content) {
            return self.clone().with_kept(response, coding, content, wanted.is_head);
        }
        let level = self.level(coding);
        match response.body {
            Body::Bytes(ref content) if content.len() <= INLINE_BYTES => {
                let compressed = whole::now(content, coding, level);
                with_content(response, coding, compressed).into()
            }
            Body::Bytes(ref content) if content.len() <= PIECE_BYTES => {
                let content = content.clone();
                Reply::Later(Box::pin(async move {
                    let compressed = whole::bytes(content, coding, level).await;
                    with_content(response, coding, compressed)
                }))
            }
            _ => self.stream(response, coding, wanted.is_head).into(),
        }
    }

    /// Uses the result of the compression of a stored response, or keeps it.
    fn with_kept(
        self: Arc<Self>,
        response: Response,
        coding: Coding,
        StoredContent { variants, id }: StoredContent,
        is_head: bool,
    ) -> Reply {
        let key = (id, coding, self.level(coding));
        if let Some(compressed) = variants.get(&key) {
            return with_content(response, coding, Ok(compressed)).into();
        }
        let body = match &response.body {
            Body::Bytes(bytes) => Body::Bytes(bytes.clone()),
            Body::File(file) => Body::File(file.clone()),
            Body::Empty | Body::Silence | Body::Stream(_) => {
                return self.stream(response, coding, is_head).into();
            }
        };
        Reply::Later(Box::pin(async move {
            let compress = variants.compress(body, coding, self.level(coding), &self.streams);
            match variants.get_or_make(&key, compress).await {
                // The result does not fit, or too many others are compressed.
                Err(_) => self.stream(response, coding, is_head),
                compressed => with_content(response, coding, compressed),
            }
        }))
    }

    /// Compresses a response while it is sent. It stays as it is if all encoders are in use.
    fn stream(&self, mut response: Response, coding: Coding, is_head: bool) -> Response {
        if is_head {
            response.body = Body::Stream(Box::new(HeadOnlyBody { length: None }));
        } else {
            let Some(permits) = self.permits(&response) else { return response };
            let encoder = Encoder::new(coding, self.level(coding), response.body.length(), Effort::Live);
            let Ok(encoder) = encoder else { return response };
            let body = std::mem::replace(&mut response.body, Body::Empty);
            response.body = Body::Stream(Box::new(CompressedBody::new(body, encoder, permits)));
        }
        fields::set_coding(&mut response, coding);
        response
    }

    fn permits(&self, response: &Response) -> Option<Permits> {
        let is_live =
            matches!(&response.body, Body::Stream(stream) if stream.is_live()) || is_of_events(response);
        let live = is_live.then(|| self.live_streams.clone().try_acquire_owned());
        Some((self.streams.clone().try_acquire_owned().ok()?, live.transpose().ok()?))
    }
}

/// Sets compressed content; a response that does not become smaller stays as it is.
fn with_content(mut response: Response, coding: Coding, compressed: io::Result<Option<Bytes>>) -> Response {
    if let Ok(Some(content)) = compressed {
        response.body = Body::Bytes(content);
        fields::set_coding(&mut response, coding);
    }
    response
}

/// Compresses the responses of a handler.
#[derive(Debug)]
pub struct Compress {
    /// Compresses the responses.
    pub compressor: Arc<Compressor>,
}

impl Step for Compress {
    fn request(&self, passage: &mut Passage<'_>, _: &Call<'_>) -> Flow {
        let wanted = Wanted::of(&passage.request);
        let codings = self.compressor.options.codings(Of::Responses);
        fields::without_ambiguous_range(&mut passage.request, &wanted, codings);
        passage.kept.wanted = Some(wanted);
        Flow::Continue
    }

    fn for_responses(&self) -> Option<&dyn ResponseStep> {
        Some(self)
    }

    fn describe(&self) -> Vec<String> {
        vec![format!("compression: {}", self.compressor.options.describe(Of::Responses))]
    }
}

impl ResponseStep for Compress {
    fn response(&self, response: Response, kept: &mut Kept<'_>, _: &Call<'_>) -> Reply {
        match &kept.wanted {
            Some(wanted) => self.compressor.compress(response, wanted),
            None => response.into(),
        }
    }
}
