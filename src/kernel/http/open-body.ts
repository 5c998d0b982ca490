// Bodies of routes that are open: while they are read, they hold memory in the share of their caller.
import { type BeforeLarge, readBody } from './input.ts'
import type { OpenOperation, Services } from './routes.ts'

type Visitor = Parameters<OpenOperation['open']>[0]

/** `hash` is of the key, on routes that read one themselves. */
type OpenBodyOptions = { hash?: string; beforeLarge?: BeforeLarge }

export async function readOpenBody(
  c: Visitor,
  { platform, shareGroups }: Services,
  { hash, beforeLarge }: OpenBodyOptions = {},
): Promise<string> {
  const hold = c.get('heldBytes').open(() => shareGroups.groupOf(hash, platform.clientAddress(c)))
  try {
    return await readBody(c.req, { hold, ...(beforeLarge && { beforeLarge }) })
  } finally {
    hold.release()
  }
}
