"""The part of QdrantClient that umi calls, answered by Qdrant's real engine in this process (`qdrant-edge-py`)."""

from __future__ import annotations

import uuid
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import qdrant_edge as edge
from qdrant_client import models


class EdgeClient:
    """One collection, one shard, in a directory."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._shard: Any = None
        self._indexed: list[str] = []
        self._params: Any = None

    def info(self) -> Any:
        return SimpleNamespace(version="1.20.0-edge")

    def collection_exists(self, collection_name: str) -> bool:
        return self._shard is not None

    def create_collection(self, collection_name: str, vectors_config: Any, sparse_vectors_config: Any) -> None:
        assert all(params.distance == models.Distance.DOT for params in vectors_config.values())
        config = edge.EdgeConfig(
            vectors={
                name: edge.EdgeVectorParams(size=params.size, distance=edge.Distance.Dot)
                for name, params in vectors_config.items()
            },
            wal_enabled=False,
            sparse_vectors={
                name: edge.EdgeSparseVectorParams(modifier=edge.Modifier.Idf) for name in sparse_vectors_config
            },
        )
        self._shard = edge.EdgeShard.create(str(self._path), config)
        self._params = SimpleNamespace(vectors=vectors_config, sparse_vectors=sparse_vectors_config)

    def create_payload_index(self, collection_name: str, field_name: str, field_schema: Any, wait: bool) -> None:
        if isinstance(field_schema, models.KeywordIndexParams):
            schema: Any = edge.KeywordIndexParams(is_tenant=field_schema.is_tenant)
        else:
            schema = getattr(edge.PayloadSchemaType, field_schema.value.capitalize())
        self._shard.update(edge.UpdateOperation.create_field_index(field_name, schema))
        self._indexed.append(field_name)

    def get_collection(self, collection_name: str) -> Any:
        info = self._shard.info()
        return SimpleNamespace(
            config=SimpleNamespace(params=self._params),
            payload_schema=dict.fromkeys(self._indexed),
            status=models.CollectionStatus.GREEN,
            segments_count=info.segments_count,
            indexed_vectors_count=info.indexed_vectors_count,
        )

    def upsert(self, collection_name: str, points: Any, wait: bool) -> None:
        made = [edge.Point(uuid.UUID(p.id), {k: _vector(v) for k, v in p.vector.items()}, p.payload) for p in points]
        self._shard.update(edge.UpdateOperation.upsert_points(made))

    def delete(self, collection_name: str, points_selector: Any, wait: bool) -> None:
        if isinstance(points_selector, models.FilterSelector):
            chosen = edge.UpdateOperation.delete_points_by_filter(_filter(points_selector.filter))
        else:
            chosen = edge.UpdateOperation.delete_points([uuid.UUID(id) for id in points_selector.points])
        self._shard.update(chosen)

    def retrieve(self, collection_name: str, ids: Any, with_payload: Any, with_vectors: Any) -> list[Any]:
        records = self._shard.retrieve(
            [uuid.UUID(id) for id in ids], with_payload=with_payload, with_vector=with_vectors
        )
        return [_record(record) for record in records]

    def scroll(
        self, collection_name: str, scroll_filter: Any, limit: int, offset: Any, with_payload: Any, with_vectors: Any
    ) -> tuple[list[Any], Any]:
        request = edge.ScrollRequest(
            offset=offset,
            limit=limit,
            filter=_filter(scroll_filter),
            with_payload=with_payload,
            with_vector=with_vectors,
        )
        records, following = self._shard.scroll(request)
        return [_record(record) for record in records], following

    def count(self, collection_name: str, count_filter: Any = None, exact: bool = True) -> Any:
        return SimpleNamespace(count=self._shard.count(edge.CountRequest(exact=exact, filter=_filter(count_filter))))

    def query_batch_points(self, collection_name: str, requests: Any) -> list[Any]:
        answers = self._shard.query_batch(edge.QueryBatchRequest([_request(request) for request in requests]))
        return [SimpleNamespace(points=[_record(point) for point in points]) for points in answers]


def _vector(vector: Any) -> Any:
    if isinstance(vector, models.SparseVector):
        return edge.SparseVector(indices=vector.indices, values=vector.values)
    return vector


def _record(record: Any) -> Any:
    vectors = record.vector
    return SimpleNamespace(
        id=str(record.id), payload=record.payload, vector=vectors or {}, score=getattr(record, "score", None)
    )


def _request(request: Any) -> Any:
    return edge.QueryRequest(
        limit=request.limit,
        query=_query(request.query, request.using),
        prefetches=[
            edge.Prefetch(
                limit=p.limit, query=_query(p.query, p.using), filter=_filter(p.filter), params=_params(p.params)
            )
            for p in request.prefetch or []
        ],
        filter=_filter(request.filter),
        with_payload=request.with_payload,
        with_vector=request.with_vector,
    )


def _params(params: Any) -> Any:
    return None if params is None else edge.SearchParams(exact=bool(params.exact))


def _query(query: Any, using: str | None) -> Any:
    if query is None:
        return None
    if isinstance(query, models.FusionQuery):
        return edge.Fusion.Rrf(k=2)
    if isinstance(query, models.OrderByQuery):
        order = query.order_by
        ascending = order.direction == models.Direction.ASC
        direction = edge.Direction.Asc if ascending else edge.Direction.Desc
        return edge.OrderBy(order.key, direction=direction, start_from=order.start_from)
    return edge.Query.Nearest(_vector(query), using=using)


def _filter(where: Any) -> Any:
    if where is None:
        return None
    if not isinstance(where, models.Filter):
        where = models.Filter(must=[where])
    parts = {
        name: [_condition(part) for part in parts]
        for name in ("must", "should", "must_not")
        if (parts := getattr(where, name)) is not None
    }
    return edge.Filter(**parts)


def _condition(condition: Any) -> Any:
    if isinstance(condition, models.Filter):
        return _filter(condition)
    if isinstance(condition, models.HasIdCondition):
        return edge.HasIdCondition({uuid.UUID(str(id)) for id in condition.has_id})
    if isinstance(condition, models.IsEmptyCondition):
        return edge.IsEmptyCondition(condition.is_empty.key)
    if condition.range is not None:
        bounds = {name: getattr(condition.range, name) for name in ("gt", "gte", "lt", "lte")}
        return edge.FieldCondition(condition.key, range=edge.RangeFloat(**bounds))
    if isinstance(condition.match, models.MatchValue):
        return edge.FieldCondition(condition.key, match=edge.MatchValue(condition.match.value))
    return edge.FieldCondition(condition.key, match=edge.MatchAny(condition.match.any))
