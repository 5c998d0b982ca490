// A link that signs a member in once, shown until the page is left.

import { formatClock } from '../../format/time.ts'
import { ShownOnce } from '../../parts/shown-once.tsx'
import type { SignInLink } from './actions.ts'

export const SignInLinkBox = ({ link, name }: { link: SignInLink; name: string }) => (
  <ShownOnce title="Copy the sign-in link now. It is not shown again" secret={link.url}>
    Give it to {name} over a channel that nobody else reads: whoever opens it first is signed in as {name}. It works
    once, until {formatClock(link.expires_at)}.
  </ShownOnce>
)
