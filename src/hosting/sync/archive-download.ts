// Downloads of source archives by agents: signed links that expire soon, and the stream behind them.
import type * as z from 'zod'
import { createSigner } from '../../kernel/crypto/crypto.ts'
import { MISSING_STORAGE } from '../../kernel/db/storage.ts'
import type { Ctx } from '../../kernel/http/context.ts'
import { fail, notConfigured } from '../../kernel/http/errors.ts'
import type { Services } from '../../kernel/http/routes.ts'
import type { ArchiveRef, ArchiveSignature } from '../../protocol/work.schema.ts'

type DownloadLink = z.output<typeof ArchiveRef> & z.output<typeof ArchiveSignature>
type Archive = { id: string; size: number; sha256: string }

const LINK_TTL_MS = 15 * 60_000

const linkSigner = ({ sealingKeys }: Services['config']) => createSigner(sealingKeys, 'download links')
const signedText = ({ workspace_id, upload_id, expires }: Omit<DownloadLink, 'signature'>) =>
  ['GET', workspace_id, upload_id, expires].join('\n')

export async function createArchiveLink(
  { config, platform, origin }: Ctx,
  workspace_id: string,
  { id: upload_id, size, sha256 }: Archive,
) {
  const expires = platform.clock.now() + LINK_TTL_MS
  const signature = await linkSigner(config).sign(signedText({ workspace_id, upload_id, expires }))
  const query = new URLSearchParams({ expires: String(expires), signature })
  return { url: `${origin}/v1/sync/archives/${workspace_id}/${upload_id}?${query}`, size, sha256 }
}

/** The signature replaces a key: only a poll under the lease returns the link. */
export async function openArchive(
  { config, platform }: Services,
  link: DownloadLink,
): Promise<ReadableStream<Uint8Array>> {
  if (!(await linkSigner(config).verify(link.signature, signedText(link)))) throw fail('download_link_invalid')
  if (link.expires <= platform.clock.now()) throw fail('download_link_expired')
  if (!platform.storage) throw notConfigured(MISSING_STORAGE)
  const path = `${link.workspace_id}/${link.upload_id}.tar.gz`
  const body = await platform.storage.get(path).catch(cause => {
    const detail = 'The storage of archives did not answer. Retry after the time in Retry-After.'
    throw fail('storage_unavailable', { detail, headers: { 'Retry-After': '1' }, cause })
  })
  if (!body) throw fail('archive_not_found')
  return body
}
