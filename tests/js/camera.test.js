import assert from "node:assert/strict";
import { test } from "node:test";

import { findAnchor } from "../../workbench/presentation/view/component/anchor.js";
import { Camera, READING_ZOOM } from "../../workbench/presentation/view/component/camera.js";
import { box, chain } from "./scenes.js";

function camera(width = 400, height = 300) {
  return Object.assign(new Camera(), { width, height });
}

test("a point goes to the screen and back", () => {
  const seen = Object.assign(camera(), { x: 30, y: -7, zoom: 0.4 });
  assert.ok(Math.abs(seen.sceneX(seen.screenX(123)) - 123) < 1e-9);
  assert.ok(Math.abs(seen.sceneY(seen.screenY(45)) - 45) < 1e-9);
});

test("what is under the pointer stays there when one zooms, and zooming has its ends", () => {
  const seen = camera();
  const before = [seen.sceneX(100), seen.sceneY(50)];
  seen.zoomAt(100, 50, 1.7);
  assert.deepEqual([seen.sceneX(100), seen.sceneY(50)].map(Math.round), before.map(Math.round));
  seen.zoomAt(0, 0, 1e9);
  assert.equal(seen.zoom, 4);
  seen.zoomAt(0, 0, 1e-9);
  assert.equal(seen.zoom, seen.minZoom);
});

test("fit shows all of the scene, however large it is", () => {
  const seen = camera();
  for (const [width, height] of [[10, 10], [400, 1000], [9000, 60000]]) {
    seen.fit({ width, height });
    assert.ok(seen.seesMost({ width, height }, 0.999), `${width} x ${height}`);
  }
});

test("a frame shows all that can be read, else the boxes as large as they fit, and nothing empty beside them", () => {
  const seen = camera();
  const placed = (y) => ({ ...box("a", 200, y), left: 150, top: y - 20 });
  const [boxes, low] = [[placed(700), placed(800)], placed(975)];
  seen.frame({ width: 300, height: 200 }, []);
  assert.ok(seen.zoom > READING_ZOOM && seen.screenX(0) >= 0 && seen.screenX(300) <= 400);
  seen.frame({ width: 400, height: 1000 }, boxes);
  assert.ok(seen.zoom >= READING_ZOOM && boxes.every((one) => seen.sees(one)));
  seen.frame({ width: 400, height: 1000 }, [low]);
  assert.ok(Math.abs(seen.sceneY(300) - 1000) < 1e-6);
  seen.frame({ width: 400, height: 1000 }, []);
  assert.ok(seen.zoom < READING_ZOOM && seen.screenY(1000) <= 300);
});

test("a jump from afar comes so near that one can read; a box larger than the pane shows its upper left", () => {
  const seen = Object.assign(camera(), { zoom: 0.1 });
  const { boxes } = chain();
  seen.showReadably(boxes[1]);
  assert.equal(seen.zoom, READING_ZOOM);
  assert.ok(seen.sees(boxes[1]));
  const large = { ...box("g", 500, 500), w: 5000, h: 5000, left: -2000, top: -2000 };
  seen.show(large);
  assert.ok(seen.screenX(large.left) > 0 && seen.screenX(large.left) < 40);
});

test("the scene is never lost", () => {
  const seen = camera();
  const scene = chain();
  seen.pan(-1e6, 1e6);
  seen.keepInSight(scene);
  assert.ok(seen.screenX(scene.width) >= 59 && seen.screenY(0) <= seen.height);
});

test("where another scene comes, most of what is seen stays where it is", () => {
  const view = { opening: { anchor: null }, selected: "", stage: { camera: Object.assign(camera(), { y: 350 }) } };
  const old = chain();
  const moved = chain({ boxes: old.boxes.map((one, place) => box(one.id, one.x + 70, one.y + 10 * place, { v: one.v })) });
  const anchor = findAnchor(view, moved, old.boxes);
  assert.deepEqual(anchor, { id: "a", x: 150, y: 130 });
  assert.equal(findAnchor(view, chain({ boxes: [], edges: [] }), old.boxes), null);
});
