// Sends an agent's spans with a stock exporter: node send.js {grpc|http|proto} URL {none|gzip}
const { setTimeout: pause } = require("node:timers/promises");
const { BasicTracerProvider, BatchSpanProcessor } = require("@opentelemetry/sdk-trace-base");

const [protocol, url, compression] = process.argv.slice(2);
const { OTLPTraceExporter } = require(`@opentelemetry/exporter-trace-otlp-${protocol}`);
const exporter = new OTLPTraceExporter({ url, compression });
const provider = new BasicTracerProvider({ spanProcessors: [new BatchSpanProcessor(exporter)] });
const tracer = provider.getTracer("node-app");

async function main() {
  for (let turn = 0; turn < 4; turn += 1) {
    const attributes = {
      "gen_ai.operation.name": "chat",
      "gen_ai.conversation.id": "node",
      "gen_ai.agent.name": "node-desk",
      "gen_ai.request.model": "in-house",
      "gen_ai.usage.input_tokens": 1000 + 60 * turn,
      "gen_ai.usage.output_tokens": 10,
      "lowwater.context.ceiling_tokens": 16000,
    };
    const span = tracer.startSpan("chat in-house", { attributes });
    await pause(10); // spans start in whole milliseconds
    span.end();
  }
  await provider.shutdown();
}

main().catch((error) => {
  console.error(error);
  process.exitCode = 1;
});
