// @ts-check
// Lines without their invisible parts: dashing a line that is far longer than the pane takes most of the time of a frame.

/** @import { Context, Extent } from "./types.js" */

const OUTSIDE = 40; // px of the scene around the region that are painted too

/** Adds the visible parts of a polyline to the context's path. Dashes keep their places while the picture is moved.
 * @param {Context} ctx @param {number[]} points x, y, x, y, ... @param {Extent} region @param {number} period of the dashes, 0 without */
export function tracePath(ctx, points, region, period) {
  const [left, right] = [region.left - OUTSIDE, region.right + OUTSIDE];
  const [top, bottom] = [region.top - OUTSIDE, region.bottom + OUTSIDE];
  let isJoined = false;
  for (let index = 0; index + 3 < points.length; index += 2) {
    const [x1, y1, x2, y2] = points.slice(index, index + 4);
    const isHidden = Math.max(x1, x2) < left || Math.min(x1, x2) > right || Math.max(y1, y2) < top || Math.min(y1, y2) > bottom;
    if (isHidden) {
      isJoined = false;
      continue;
    }
    const startX = y1 === y2 ? clipped(x1, x2, left, right, period) : x1;
    const startY = x1 === x2 ? clipped(y1, y2, top, bottom, period) : y1;
    if (!isJoined || startX !== x1 || startY !== y1) ctx.moveTo(startX, startY);
    const endX = y1 === y2 ? clipped(x2, x1, left, right, 0) : x2;
    const endY = x1 === x2 ? clipped(y2, y1, top, bottom, 0) : y2;
    ctx.lineTo(endX, endY);
    isJoined = endX === x2 && endY === y2;
  }
}

/** `from`, moved towards `to` up to the bounds, by a whole number of periods.
 * @param {number} from @param {number} to @param {number} low @param {number} high @param {number} period */
function clipped(from, to, low, high, period) {
  const bound = to > from ? Math.max(from, Math.min(low, to)) : Math.min(from, Math.max(high, to));
  if (!period) return bound;
  return from + Math.trunc((bound - from) / period) * period;
}

/** Whether two areas have a point in common. @param {Extent} one @param {Extent} other */
export function overlap(one, other) {
  return one.left < other.right && one.right > other.left && one.top < other.bottom && one.bottom > other.top;
}
