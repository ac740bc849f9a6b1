# A static binary and nothing else: no shell, no root. Time zones and CA
# certificates are inside.
FROM golang:1.26 AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
ARG VERSION=development
RUN CGO_ENABLED=0 go build -trimpath -tags timetzdata -ldflags "-s -w -X main.version=${VERSION}" -o /out/rollcall ./cmd/rollcall \
 && mkdir -p /out/data

FROM scratch
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY --from=build /out/rollcall /rollcall
COPY --from=build --chown=65532:65532 /out/data /data
USER 65532:65532
WORKDIR /data
VOLUME /data
HEALTHCHECK --interval=1m --timeout=10s CMD ["/rollcall", "migrate", "--check"]
ENTRYPOINT ["/rollcall"]
CMD ["serve"]
