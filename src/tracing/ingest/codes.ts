// Error codes of ingest.
import type { ErrorCodes } from '../../protocol/error-codes.ts'

export const ingestCodes = {
  spans_undecodable: {
    status: 400,
    title: 'Spans not decodable',
    problem: 'The body is not an export of spans.',
    remedy: 'Send an ExportTraceServiceRequest of OpenTelemetry, in protobuf or JSON.',
  },
} as const satisfies ErrorCodes
