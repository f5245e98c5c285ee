# The image: one program, the libraries that it names, the system's certificates, and a user. No shell, no package manager.
#
#   docker build --tag greylag:0.1.0 .
#   docker run --read-only --volume "$PWD/config:/etc/greylag:ro" greylag:0.1.0 run --config /etc/greylag/canary.yaml
#
# PROFILE=demo builds faster what runs somewhat slower. `image/prove` runs these stages without Docker.

# The version is the one of rust-toolchain.toml.
FROM rust:1.95.0-bookworm AS build
ARG PROFILE=release
# A library that Pingora links is built with cmake. It stays in this stage.
RUN apt-get update \
    && apt-get install --yes --no-install-recommends ca-certificates cmake \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /build
# What is fetched and built of other people's code is kept for as long as the manifests and the lockfile stay.
COPY Cargo.toml Cargo.lock ./
COPY filters/Cargo.toml filters/
COPY sim/Cargo.toml sim/
COPY image/bare image/
RUN sh image/bare Cargo.toml filters/Cargo.toml sim/Cargo.toml
RUN cargo build --locked --profile "$PROFILE" --bin greylag
# Sources may be older than what was just built of empty ones, and would then count as built.
RUN cargo clean --locked --profile "$PROFILE" --package greylag --package greylag-filters --package greylag-sim
COPY filters/src filters/src
COPY sim/src sim/src
COPY src src
RUN cargo build --locked --profile "$PROFILE" --bin greylag

FROM build AS root
ARG PROFILE=release
COPY LICENSE ./
COPY image/root image/
RUN sh image/root "target/$PROFILE/greylag" LICENSE /out

FROM scratch
ARG VERSION=0.1.0
ARG REVISION=unknown
LABEL org.opencontainers.image.title="greylag" \
      org.opencontainers.image.description="A sidecar for inference traffic: split, measure and compare token streams" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="$VERSION" \
      org.opencontainers.image.revision="$REVISION"
COPY --from=root /out /
# Where state_file may be, on a volume that takes over who owns it.
COPY --from=root --chown=65532:65532 /out/var/lib/greylag /var/lib/greylag
USER 65532:65532
# Clients, and metrics and health. The admin API is on loopback.
EXPOSE 8000 9902
# Where observe.address is another one, GREYLAG_OBSERVE_ADDRESS tells both commands.
HEALTHCHECK --interval=10s --timeout=3s --start-period=5s CMD ["/usr/bin/greylag", "health"]
ENTRYPOINT ["/usr/bin/greylag"]
CMD ["run", "--config", "/etc/greylag/greylag.yaml"]
