"""One scene as a document."""

from __future__ import annotations

from dataclasses import asdict
from datetime import tzinfo
from typing import Any

from memory_tencentdb_worker.errors import NotFound
from memory_tencentdb_worker.models import Scene
from memory_tencentdb_worker.recall.render import body_text
from memory_tencentdb_worker.store.base import Store
from memory_tencentdb_worker.text.times import iso_local


def scene_document(name: str, store: Store, zone: tzinfo, scope: str | None) -> dict[str, Any]:
    """`name` with or without `.md`. Raises NotFound."""
    scene = find_scene(name, store, scope)
    if scene is None:
        raise NotFound(f"there is no scene {name!a}")
    return {**scene_row(scene, zone), "content": body_text(scene.sections)}


def find_scene(name: str, store: Store, scope: str | None) -> Scene | None:
    """By its name, with or without `.md`. `scope` None: several users may have one of this name, and the default
    user's comes first."""
    for user in ("", None) if scope is None else (scope,):
        scene = store.scene(user, name) or store.scene(user, name.removesuffix(".md"))
        if scene is not None:
            return scene
    return None


def scene_row(scene: Scene, zone: tzinfo) -> dict[str, Any]:
    return {
        "id": scene.name,
        "filename": f"{scene.name}.md",
        "summary": scene.summary,
        "heat": scene.heat,
        "created": iso_local(scene.created_at, zone),
        "updated": iso_local(scene.updated_at, zone),
        "status": scene.status,
        "mergedInto": scene.merged_into,
        "revision": scene.revision,
        "userId": scene.scope,
        "sections": [asdict(section) for section in scene.sections],
    }
