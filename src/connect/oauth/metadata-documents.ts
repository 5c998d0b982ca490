// Fetches and validates the metadata documents that OAuth servers publish.
import * as z from 'zod'
import { Failure } from '../../kernel/http/errors.ts'
import type { GuardedClient } from '../../kernel/http/guarded-fetch.ts'
import { arrayOf, boundedText } from '../../protocol/wire.ts'
import { failAtStage, type Stage } from './stage-failure.ts'

/** Stored and sent verbatim, so no spaces and no control characters. */
const VisibleAscii = boundedText(2048).regex(/^[\x21-\x7e]+$/)
const MAX_TEXTS = 1000
export const TextList = arrayOf(z.string(), MAX_TEXTS)

export const ResourceMetadata = z.object({
  resource: VisibleAscii,
  authorization_servers: arrayOf(z.string(), MAX_TEXTS, 1),
  scopes_supported: TextList.nullish(),
})

/** Nullish, because some servers write null for absent members. */
export const ServerMetadata = z.object({
  issuer: VisibleAscii,
  authorization_endpoint: z.string(),
  token_endpoint: z.string(),
  registration_endpoint: z.string().nullish(),
  revocation_endpoint: z.string().nullish(),
  response_types_supported: TextList.nullish(),
  grant_types_supported: TextList.nullish(),
  scopes_supported: TextList.nullish(),
  token_endpoint_auth_methods_supported: TextList.nullish(),
  code_challenge_methods_supported: TextList.nullish(),
  authorization_response_iss_parameter_supported: z.boolean().nullish(),
  client_id_metadata_document_supported: z.boolean().nullish(),
})
export type ServerMetadata = z.output<typeof ServerMetadata>

const METADATA_HEADERS = { Accept: 'application/json', 'MCP-Protocol-Version': '2025-11-25' }

/**
 * The first document at these URLs. A 4xx, or a body that is not a JSON object, means that there is none: single-page
 * apps answer every path with a page. Any other failure is thrown, because the document may exist.
 */
export async function fetchFirstDocument(http: GuardedClient, stage: Stage, addresses: string[]) {
  for (const address of new Set(addresses)) {
    http.stage(stage)
    const response = await http.fetch(address, { headers: METADATA_HEADERS })
    const { status } = response
    if (status >= 300 && (status < 400 || status === 429 || status >= 500)) {
      await response.body?.cancel()
      throw failAtStage('upstream_error', stage, address, `it answered ${status}`)
    }
    if (response.ok) {
      const document = await readJsonObject(response)
      if (document) return { document, address }
    } else await response.body?.cancel()
  }
  return null
}

/** Null if the body is not JSON. Stops reading a body that does not start like an object. */
export async function readJsonObject(response: Response): Promise<Record<string, unknown> | null> {
  const decoder = new TextDecoder()
  let text = ''
  let hasStarted = false
  for await (const bytes of response.body ?? []) {
    text += decoder.decode(bytes, { stream: true })
    if (hasStarted) continue
    text = text.trimStart()
    if (text !== '' && text[0] !== '{') return null
    hasStarted = text !== ''
  }
  try {
    return JSON.parse(text)
  } catch {
    return null
  }
}

/** The first 2,000 characters or more. Keeps what it read if reading fails. */
export async function readBeginning(response: Response): Promise<string> {
  const decoder = new TextDecoder()
  let text = ''
  try {
    for await (const bytes of response.body ?? []) {
      text += decoder.decode(bytes, { stream: true })
      if (text.length > 2000) break
    }
  } catch (error) {
    if (!(error instanceof Failure)) throw error
  }
  return text
}

export function parseMetadata<Shape extends z.ZodObject>(
  schema: Shape,
  { document, address }: { document: Record<string, unknown>; address: string },
  stage: Stage,
): z.output<Shape> {
  const parsed = schema.safeParse(document)
  if (parsed.success) return parsed.data
  throw failAtStage('metadata_invalid', stage, address, describeFaults(parsed.error))
}

/** Names each invalid member once, because every item of a long list may be invalid. */
export const describeFaults = ({ issues }: z.ZodError): string =>
  `missing or invalid: ${[...new Set(issues.map(({ path }) => `\`${String(path[0])}\``))].join(', ')}`
