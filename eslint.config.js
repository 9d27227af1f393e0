import js from "@eslint/js";
import globals from "globals";

export default [
  { ignores: [".venv*/", "site/", "node_modules/"] },
  js.configs.recommended,
  {
    rules: {
      eqeqeq: ["error", "always", { null: "ignore" }],
      "no-var": "error",
      "prefer-const": "error",
      "no-shadow": "error",
      "no-implicit-coercion": "error",
      "no-control-regex": "off", // names come from files, with whatever is in them
      curly: ["error", "multi-line"],
    },
  },
  { files: ["workbench/presentation/view/component/*.js"], languageOptions: { globals: globals.browser } },
  { files: ["tests/js/*.js", "*.js"], languageOptions: { globals: globals.node } },
];
