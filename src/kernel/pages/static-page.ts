// Pages that stay the same until the next release: rendered once, then revalidated by ETag.
import type { Context } from 'hono'
import { sha256 } from '../crypto/digest.ts'
import { matchesEtag } from '../http/etag.ts'

type RenderedPage = { bytes: Uint8Array<ArrayBuffer>; tag: string }

/** `no-cache`: browsers revalidate each time, so that a page never gets the script of another release. */
export function serveStaticPage(
  type: string,
  render: () => string | Promise<string>,
  headers: Record<string, string> = {},
) {
  let rendered: Promise<RenderedPage> | undefined
  const renderOnce = async (): Promise<RenderedPage> => {
    const bytes = new TextEncoder().encode(await render())
    return { bytes, tag: `"${sha256().update(bytes).digest('hex')}"` }
  }
  return async (c: Context): Promise<Response> => {
    rendered ??= renderOnce()
    const { bytes, tag } = await rendered
    const cached = { ...headers, ETag: tag, 'Cache-Control': 'no-cache' }
    if (matchesEtag(c.req.header('If-None-Match'), tag)) return c.body(null, 304, cached)
    return c.body(bytes, 200, { ...cached, 'Content-Type': type })
  }
}
