// The route that exporters of OpenTelemetry send spans to.
import * as z from 'zod'
import { verb } from '../../../kernel/http/context.ts'
import type { RawBody } from '../../../kernel/http/raw-body.ts'
import { slice } from '../../../kernel/http/routes.ts'
import { boundedText } from '../../../protocol/wire.ts'

const EXAMPLE = {
  resourceSpans: [
    {
      resource: { attributes: [{ key: 'service.name', value: { stringValue: 'shop' } }] },
      scopeSpans: [
        {
          spans: [
            {
              traceId: '0af7651916cd43dd8448eb211c80319c',
              spanId: 'b7ad6b7169203331',
              name: 'chat',
              startTimeUnixNano: '1764000000000000000',
              endTimeUnixNano: '1764000001500000000',
              attributes: [{ key: 'gen_ai.operation.name', value: { stringValue: 'chat' } }],
            },
          ],
        },
      ],
    },
  ],
}

const ExportHeaders = z.object({
  'langsmith-project': boundedText(255)
    .optional()
    .meta({ description: 'The project of spans that name none. By default the name of their service, or `default`.' }),
})

const exportSpans = verb(
  'runs:create',
  async (ctx, { raw, 'langsmith-project': project }: z.output<typeof ExportHeaders> & { raw: RawBody }) => {
    const body = await import('./export-spans.ts').then(({ exportSpans }) => exportSpans(ctx, raw, project))
    const { body: stream } = new Response(body)
    return { stream: stream!, headers: { 'Content-Type': raw.mediaType } }
  },
  { byPolicy: true },
)

export const otlpRoutes = slice(
  'OpenTelemetry',
  'Spans by OTLP/HTTP become runs. Set `OTEL_EXPORTER_OTLP_TRACES_ENDPOINT` to this address.',
).post('/otel/v1/traces', {
  id: 'exportSpans',
  summary: 'Store spans as runs',
  description:
    'An `ExportTraceServiceRequest` of opentelemetry-proto, in protobuf or JSON, also compressed by gzip. Spans that ' +
    'cannot be stored are counted in `partialSuccess`. Parents may come after their children.',
  headers: ExportHeaders,
  rawBody: {
    'application/json': { example: { contentType: 'application/json', text: JSON.stringify(EXAMPLE) } },
    'application/x-protobuf': {},
    'application/protobuf': {},
  },
  idempotent: true,
  streamMediaType: ['application/json', 'application/x-protobuf', 'application/protobuf'],
  errors: [
    'spans_undecodable',
    'project_not_found',
    'run_in_other_project',
    'bodies_busy',
    'trace_storage_unavailable',
  ],
  verb: exportSpans,
})
