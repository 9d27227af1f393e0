// @ts-check
// Marks for the browser's profiler, and for tests and benchmarks: when pictures were painted.

export class Timing {
  constructor() {
    this.lastStepMs = 0; // from a step of the clock to its picture
    this.stepStarted = 0;
    this.painted = false;
    this.arrived = false; // a scene has arrived since the last picture
  }

  stepStarts() {
    this.stepStarted = performance.now();
  }

  /** The clock did not move. */
  stepEnds() {
    this.stepStarted = 0;
  }

  sceneArrives() {
    this.arrived = true;
  }

  /** Called after each painted picture. */
  drawn() {
    if (!this.painted) performance.mark("graph-workbench:first-picture");
    this.painted = true;
    if (this.arrived) performance.mark("graph-workbench:scene");
    this.arrived = false;
    if (!this.stepStarted) return;
    this.lastStepMs = performance.now() - this.stepStarted;
    this.stepEnds();
    performance.mark("graph-workbench:step");
  }
}
