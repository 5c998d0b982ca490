// The actions on a run: share it, make an example of it, and read it in a terminal.
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
const AddToQueue = lazily(() => import('../annotation/add-to-queue.tsx'))

/** The key stays out of the command, and so out of shell histories. */
const toCurl = ({ id }: Run): string =>
  [
    `curl ${quote(`${location.origin}/runs/${id}`)}`,
    '-H "X-Api-Key: $SLIPWAY_API_KEY"',
    ...(workspaceId.value ? [`-H 'X-Tenant-Id: ${workspaceId.value}'`] : []),
  ].join(' \\\n  ')

type ActionsProps = { workspace: string; run: Run; isShared: boolean; onChanged: () => void }
export function RunActions({ workspace, run, isShared, onChanged }: ActionsProps) {
  const [adding, setAdding] = useState<'dataset' | 'queue'>()
  const close = () => setAdding(undefined)
  return (
    <div class={styles.actions}>
      <Button small icon="stack" onClick={() => setAdding('dataset')}>
        Add to dataset
      </Button>
      <Button small icon="pen" onClick={() => setAdding('queue')}>
        Add to queue
      </Button>
      {!isShared && <ActionButton small action={share(run)} onDone={onChanged} />}
      <CopyButton text={() => toCurl(run)} look="default" label="Copy the request that reads this run, as curl">
        curl
      </CopyButton>
      {adding === 'dataset' && <AddToDataset workspace={workspace} run={run} onClose={close} />}
      {adding === 'queue' && <AddToQueue workspace={workspace} run={run} onClose={close} />}
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
