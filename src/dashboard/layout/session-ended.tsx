// Asks to sign in again. Unsaved input stays, also if the person signs in in another tab.
import { useEffect } from 'preact/hooks'
import { currentPath, meVersion, readMe, sessionEnded, signInAddress } from '../api/client.ts'
import { queryClient } from '../api/queries.ts'
import { Button, ButtonLink } from '../parts/button.tsx'
import { Dialog } from '../parts/dialog.tsx'

async function checkSession(): Promise<void> {
  const me = await readMe().catch(() => undefined)
  if (!me) return
  sessionEnded.value = false
  // Another person may have signed in.
  meVersion.value++
  await queryClient.invalidateQueries()
}

export default function SessionEnded() {
  useEffect(() => {
    const check = () => void checkSession()
    addEventListener('focus', check)
    return () => removeEventListener('focus', check)
  }, [])
  return (
    <Dialog
      title="Your session has ended"
      persistent
      onClose={() => {}}
      footer={
        <>
          <Button onClick={() => void checkSession()}>I have signed in elsewhere</Button>
          <ButtonLink look="primary" href={signInAddress(currentPath())}>
            Sign in
          </ButtonLink>
        </>
      }
    >
      <p>
        Sign in to continue on this page. To keep unsaved input,{' '}
        <a href="/sign-in" target="_blank" rel="noreferrer">
          sign in in a new tab
        </a>{' '}
        and come back.
      </p>
    </Dialog>
  )
}
