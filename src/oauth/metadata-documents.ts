// What OAuth servers publish, read with distrust: it is of the shape that we use, or it is refused.
import * as z from 'zod'
import { Failure } from '../kernel/errors.ts'
import type { GuardedClient } from '../kernel/guarded-fetch.ts'
import { arrayOf, boundedText } from '../protocol/wire.ts'
import { failAtStage, type Stage } from './stage-failure.ts'

/** What is kept or sent verbatim is plain: no spaces, no control characters. */
const VisibleAscii = boundedText(2048).regex(/^[\x21-\x7e]+$/)
const MAX_TEXTS = 1000
const TextList = arrayOf(z.string(), MAX_TEXTS)

export const ResourceMetadata = z.object({
  resource: VisibleAscii,
  authorization_servers: arrayOf(z.string(), MAX_TEXTS, 1),
  scopes_supported: TextList.nullish(),
})

/** Null is as good as nothing, because some servers write all members. */
export const ServerMetadata = z.object({
  issuer: VisibleAscii,
  authorization_endpoint: z.string(),
  token_endpoint: z.string(),
  registration_endpoint: z.string().nullish(),
  revocation_endpoint: z.string().nullish(),
  response_types_supported: TextList,
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
 * The first of these addresses where a document stands. A 4xx, or an answer that is no JSON object, is a miss, as single-page apps answer
 * everything; what cannot be reached, fails or is over its rate is not, because then nobody knows whether there is a document.
 */
export async function fetchFirstDocument(outside: GuardedClient, stage: Stage, addresses: string[]) {
  for (const address of new Set(addresses)) {
    outside.stage(stage)
    const response = await outside.fetch(address, { headers: METADATA_HEADERS })
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

/** The JSON object that an answer is, if it is one. What does not begin like one is not read on. */
export async function readJsonObject(response: Response): Promise<Record<string, unknown> | null> {
  const decoder = new TextDecoder()
  let text = ''
  let begun = false
  for await (const bytes of response.body ?? []) {
    text += decoder.decode(bytes, { stream: true })
    if (begun) continue
    text = text.trimStart()
    if (text !== '' && text[0] !== '{') return null
    begun = text !== ''
  }
  try {
    return JSON.parse(text)
  } catch {
    return null
  }
}

/** Enough of a body to tell what it says. */
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

/** Held against its shape; the reason names the members at fault. */
export function parseMetadata<Shape extends z.ZodObject>(
  shape: Shape,
  { document, address }: { document: Record<string, unknown>; address: string },
  stage: Stage,
): z.output<Shape> {
  const parsed = shape.safeParse(document)
  if (parsed.success) return parsed.data
  throw failAtStage('metadata_invalid', stage, address, describeFaults(parsed.error))
}

/** Which members are at fault, each once: a long list may be wrong at every place. */
export const describeFaults = ({ issues }: z.ZodError): string =>
  `missing or not as it should be: ${[...new Set(issues.map(({ path }) => `\`${String(path[0])}\``))].join(', ')}`
