# The gateway as an image: built from source, run by nobody, with nothing beside it.
#
#   docker build -t backstop .
#   docker run -d --name backstop -p 127.0.0.1:3030:3030 -v backstop:/data -e OPENAI_API_KEY \
#       -v ./admin-password:/run/secrets/admin-password:ro backstop
#   docker exec backstop backstop clients add laptop
#
# The configuration, if there is one, is /etc/backstop/backstop.toml; everything that changes lies in /data. A container
# listens beyond itself, so the dashboard needs a password of at least ten characters; user 65532 has to be able to read it.

FROM rust:1-slim-bookworm AS build
RUN apt-get update && apt-get install -y --no-install-recommends build-essential cmake && rm -rf /var/lib/apt/lists/*
WORKDIR /source
COPY . .
RUN --mount=type=cache,target=/usr/local/cargo/registry --mount=type=cache,target=/source/target \
    cargo build --locked --profile dist --bin backstop && cp target/dist/backstop /usr/local/bin/backstop
RUN mkdir -p /empty/data /empty/etc/backstop

FROM gcr.io/distroless/cc-debian12:nonroot
COPY --from=build /usr/local/bin/backstop /usr/local/bin/backstop
COPY --from=build --chown=65532:65532 /empty/data /data
COPY --from=build /empty/etc/backstop /etc/backstop
ENV XDG_CONFIG_HOME=/etc XDG_DATA_HOME=/data BACKSTOP_ADMIN_PASSWORD_FILE=/run/secrets/admin-password
USER 65532:65532
VOLUME /data
EXPOSE 3030
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=15s --timeout=6s --start-period=20s --retries=3 \
    CMD ["/usr/local/bin/backstop", "status", "--check"]
ENTRYPOINT ["/usr/local/bin/backstop"]
CMD ["serve", "--listen", "0.0.0.0:3030"]
