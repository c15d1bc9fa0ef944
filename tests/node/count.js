// Counts tokens as cl100k does: node count.js FILE, a JSON list of texts; prints a JSON list of counts.
const { readFileSync } = require("node:fs");
const { encode } = require("gpt-tokenizer/encoding/cl100k_base");

const texts = JSON.parse(readFileSync(process.argv[2], "utf8"));
console.log(JSON.stringify(texts.map((text) => encode(text).length)));
