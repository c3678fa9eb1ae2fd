# The knowloom server. It listens on all interfaces, so create a key before the first start:
#   docker build -t knowloom .
#   docker run --rm -v knowloom:/data knowloom knowloom keys add admin --write '*' --role admin --db /data/knowledge.db
#   docker run -p 8000:8000 -v knowloom:/data knowloom
FROM python:3.12-slim

WORKDIR /app
COPY pyproject.toml README.md LICENSE NOTICE ./
COPY src ./src
RUN pip install --no-cache-dir '.[server]' \
    && useradd --create-home --uid 10001 knowloom \
    && install -d -o knowloom -g knowloom /data

USER knowloom
WORKDIR /data
VOLUME /data
EXPOSE 8000
HEALTHCHECK --interval=30s --timeout=3s --start-period=10s \
    CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8000/healthz', timeout=2)"]
CMD ["knowloom", "serve", "--host", "0.0.0.0", "--db", "/data/knowledge.db"]
