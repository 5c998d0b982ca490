// Variables by which an application traces itself: tracing clients and OpenTelemetry read them.
import type { Config } from '../../env.ts'
import { createTraceKey } from '../../kernel/crypto/trace-keys.ts'
import type { Tracing } from '../../protocol/work.schema.ts'

export type TracedDeployment = { deployment_id: string; name: string; trace_key_version: number }

/** `url` is this API as the application reaches it. Scores are judged by the revision in the metadata of traces. */
export async function makeTracing(
  config: Pick<Config, 'sealingKeys'>,
  { deployment_id, name, trace_key_version }: TracedDeployment,
  url: string,
  revision_id: string,
): Promise<Tracing> {
  const key = await createTraceKey(config, { deployment_id, version: trace_key_version })
  return {
    key,
    variables: {
      LANGSMITH_TRACING: 'true',
      // The path makes links that clients print lead to the dashboard.
      LANGSMITH_ENDPOINT: `${url}/api/v1`,
      LANGSMITH_PROJECT: name,
      LANGSMITH_API_KEY: key,
      LANGCHAIN_REVISION_ID: revision_id,
      OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: `${url}/otel/v1/traces`,
      OTEL_EXPORTER_OTLP_TRACES_HEADERS: `x-api-key=${key}`,
      OTEL_EXPORTER_OTLP_TRACES_PROTOCOL: 'http/protobuf',
    },
  }
}
