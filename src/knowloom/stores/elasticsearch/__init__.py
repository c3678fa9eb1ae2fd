"""Words and vectors in Elasticsearch or OpenSearch: one adapter, two dialects."""
