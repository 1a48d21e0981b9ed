# The controller alone, linked statically, for amd64 and arm64:
#
#   docker buildx build --platform linux/amd64,linux/arm64 --tag my-registry/kruise-rollout-controller:0.1.0 --push .
#
# It is compiled on the platform that builds, for the platform that runs it.
FROM --platform=$BUILDPLATFORM rust:1.95.0-bookworm AS build
RUN apt-get update && apt-get install --yes --no-install-recommends gcc-aarch64-linux-gnu gcc-x86-64-linux-gnu
WORKDIR /source
COPY . .
ARG TARGETARCH
RUN case "$TARGETARCH" in \
        amd64) target=x86_64-unknown-linux-musl ;; \
        arm64) target=aarch64-unknown-linux-musl ;; \
        *) echo "no image for $TARGETARCH" >&2; exit 1 ;; \
    esac && \
    folder=$(release/build "$target" kruise-rollout-controller) && \
    cp "$folder/kruise-rollout-controller" /kruise-rollout-controller
RUN release/check-size /kruise-rollout-controller

FROM scratch
COPY LICENSE /LICENSE
COPY --from=build /kruise-rollout-controller /kruise-rollout-controller
USER 65532:65532
ENTRYPOINT ["/kruise-rollout-controller"]
CMD ["run"]
