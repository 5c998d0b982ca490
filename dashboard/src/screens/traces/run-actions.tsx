// What can be done with a run: share it, make an example of it, and read it in a terminal.
import { useState } from 'preact/hooks'
import { workspaceId } from '../../api/client.ts'
import type { Run } from '../../api/runs.ts'
import { quote } from '../../format/shell-word.ts'
import { ActionButton } from '../../parts/action.tsx'
import { Button } from '../../parts/button.tsx'
import { CopyButton } from '../../parts/copy.tsx'
import { lazily } from '../../parts/lazily.tsx'
import { share, unshare } from './actions.ts'
import styles from './trace.module.css'

const AddToDataset = lazily(() => import('./add-to-dataset.tsx'))

/** The key stays out of the command, and so out of shell histories. */
const toCurl = ({ id }: Run): string =>
  [
    `curl ${quote(`${location.origin}/runs/${id}`)}`,
    '-H "X-Api-Key: $SLIPWAY_API_KEY"',
    ...(workspaceId.value ? [`-H 'X-Tenant-Id: ${workspaceId.value}'`] : []),
  ].join(' \\\n  ')

type ActionsProps = { workspace: string; run: Run; isShared: boolean; onChanged: () => void }
export function RunActions({ workspace, run, isShared, onChanged }: ActionsProps) {
  const [isAdding, setAdding] = useState(false)
  return (
    <div class={styles.actions}>
      <Button small icon="stack" onClick={() => setAdding(true)}>
        Add to dataset
      </Button>
      {!isShared && <ActionButton small action={share(run)} onDone={onChanged} />}
      <CopyButton text={() => toCurl(run)} look="default" label="Copy the request that reads this run, as curl">
        curl
      </CopyButton>
      {isAdding && <AddToDataset workspace={workspace} run={run} onClose={() => setAdding(false)} />}
    </div>
  )
}

type LinkProps = { run: Run; token: string; onChanged: () => void }
/** There is no page for people without an account: the link answers JSON. */
export function SharedLink({ run, token, onChanged }: LinkProps) {
  const url = `${location.origin}/public/${token}/run`
  return (
    <div class={styles.link}>
      <p>
        Anyone with this link can read the run as JSON: <code>{url}</code>
      </p>
      <CopyButton text={() => url} look="default">
        Copy link
      </CopyButton>
      <ActionButton small action={unshare(run)} onDone={onChanged} />
    </div>
  )
}
