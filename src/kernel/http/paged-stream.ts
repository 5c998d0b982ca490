// Downloads: a stream that reads one page for each trip, as fast as the client takes it.
import { type Ctx, credentialOf } from './context.ts'

/** The text of a page, and where the next one begins. Undefined after the last page. */
type TextPage<Cursor> = { text: string; next: Cursor | undefined }

export async function streamPages<Cursor>(
  ctx: Ctx,
  readPage: (after?: Cursor) => Promise<TextPage<Cursor>>,
): Promise<ReadableStream<Uint8Array>> {
  const utf8 = new TextEncoder()
  const release = ctx.watches!.admit(credentialOf(ctx).hash)
  const releaseAndThrow = (error: unknown) => {
    release()
    throw error
  }
  // Read before the answer begins, so that a refused request is answered with a problem.
  let page: TextPage<Cursor> | undefined = await readPage().catch(releaseAndThrow)
  let after: Cursor | undefined
  // Reads nothing ahead: a client that stops reading holds no page.
  return new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        const { text, next } = page ?? (await readPage(after).catch(releaseAndThrow))
        page = undefined
        after = next
        if (text) controller.enqueue(utf8.encode(text))
        if (next !== undefined) return
        controller.close()
        release()
      },
      cancel: release,
    },
    { highWaterMark: 0 },
  )
}
