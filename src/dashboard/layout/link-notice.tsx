// Shows the account of a session from a sign-in link: the link may lead to the account of another person.
import { useState } from 'preact/hooks'
import type { Me } from '../api/client.ts'
import { Button } from '../parts/button.tsx'
import styles from './link-notice.module.css'

const KEY = 'slipway-link-noticed'

type LinkNoticeProps = { me: Me; onSignOut: () => void }

export default function LinkNotice({ me: { session, member, organization }, onSignOut }: LinkNoticeProps) {
  const [noticed, setNoticed] = useState(() => localStorage.getItem(KEY))
  if (!session || noticed === session.id) return null
  const hide = () => {
    localStorage.setItem(KEY, session.id)
    setNoticed(session.id)
  }
  return (
    <aside class={styles.notice} aria-label="Signed in by a link">
      <p>
        Signed in as <b>{member?.full_name ?? member?.email}</b> of <b>{organization.display_name}</b>, by a link.
      </p>
      <Button small look="bare" onClick={onSignOut}>
        Not you? Sign out
      </Button>
      <Button small look="bare" icon="cross" aria-label="Hide this notice" onClick={hide} />
    </aside>
  )
}
