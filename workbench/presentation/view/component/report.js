// @ts-check
// The view in one HTML file.

import { elementOf } from "./dom.js";
import { Offline } from "./offline.js";
import { putHook } from "./test_api.js";

const tables = JSON.parse(elementOf("graph-workbench-data").textContent);
const report = new Offline(tables, document.getElementById("graph-workbench") ?? document.body);
putHook("report", report.view);
