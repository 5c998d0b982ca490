// Signed links to attachments in the object store. A link shows its attachment to everyone until it expires.

import { createSigner } from '../../kernel/crypto/crypto.ts'
import { MISSING_STORAGE } from '../../kernel/db/storage.ts'
import type { HostServices } from '../../kernel/http/context.ts'
import { fail, notConfigured } from '../../kernel/http/errors.ts'
import type { Services } from '../../kernel/http/routes.ts'
import type { AttachmentLink } from './examples.schema.ts'
import type { ExampleAttachments } from './tables.ts'

const LINK_SECONDS = 3600

export type LinkSigner = { origin: string; expires: number; sign(text: string): Promise<string> }

/** The links of one answer expire together. */
export function createLinkSigner({ config, platform }: HostServices, origin: string): LinkSigner {
  const signer = createSigner(config.sealingKeys, PURPOSE)
  const expires = Math.floor(platform.clock.now() / 1000) + LINK_SECONDS
  return { origin, expires, sign: text => signer.sign(text) }
}
const PURPOSE = 'links to attachments'

export const pathOfObject = (tenant_id: string, id: string): string => `examples/${tenant_id}/${id}`

const signedText = ({ tenant_id, object_id, media_type, expires }: Omit<AttachmentLink, 'signature'>): string =>
  [tenant_id, object_id, media_type, expires].join('\n')

export async function linkToAttachment(
  { origin, expires, sign }: LinkSigner,
  tenant_id: string,
  { id, mime_type }: ExampleAttachments[string],
) {
  const signature = await sign(signedText({ tenant_id, object_id: id, media_type: mime_type, expires }))
  const query = new URLSearchParams({ media_type: mime_type, expires: String(expires), signature })
  return {
    presigned_url: `${origin}/v1/platform/attachments/${tenant_id}/${id}?${query}`,
    s3_url: pathOfObject(tenant_id, id),
    mime_type,
  }
}

export async function openAttachment(
  { config, platform }: Services,
  link: AttachmentLink,
): Promise<ReadableStream<Uint8Array>> {
  if (!(await createSigner(config.sealingKeys, PURPOSE).verify(link.signature, signedText(link))))
    throw fail('attachment_link_invalid')
  if (link.expires * 1000 <= platform.clock.now()) throw fail('attachment_link_expired')
  if (!platform.storage) throw notConfigured(MISSING_STORAGE)
  const stream = await platform.storage.get(pathOfObject(link.tenant_id, link.object_id)).catch(cause => {
    throw fail('storage_unavailable', { cause })
  })
  if (!stream) throw fail('attachment_not_found')
  return stream
}
