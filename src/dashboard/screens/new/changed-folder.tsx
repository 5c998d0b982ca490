// Uploads a changed folder, and shows its plan before it deploys.
import { useEffect, useRef, useState } from 'preact/hooks'
import { uploadArchive } from '../../api/upload.ts'
import type { Deployment } from '../../format/state.ts'
import { Button } from '../../parts/button.tsx'
import { lazily } from '../../parts/lazily.tsx'
import { Problem } from '../../parts/problem.tsx'
import { deployFiles, type PlannedChange } from '../deployments/change-requests.ts'
import type { PlanDialogProps } from '../deployments/plan-dialog.tsx'
import { FolderSource, type PackedSource } from './folder-source.tsx'
import styles from './new.module.css'
import { ProgressBar } from './progress.tsx'

const PlanDialog = lazily<PlanDialogProps>(() => import('../deployments/plan-dialog.tsx'))

export type ChangedFolderProps = { workspace: string; deployment: Deployment }
export default function ChangedFolder({ workspace, deployment }: ChangedFolderProps) {
  const [packed, setPacked] = useState<PackedSource>()
  const [sent, setSent] = useState<number>()
  const [error, setError] = useState<Error>()
  const [change, setChange] = useState<PlannedChange>()
  const running = useRef<AbortController>()
  useEffect(() => () => running.current?.abort(), [])
  const archive = packed?.archive

  async function upload(files: Blob): Promise<void> {
    const controller = new AbortController()
    running.current = controller
    setError(undefined)
    setSent(0)
    try {
      const options = { signal: controller.signal, onProgress: setSent }
      const { object_path } = await uploadArchive(deployment, files, options)
      setChange(deployFiles(deployment, object_path))
    } catch (caught) {
      if (!controller.signal.aborted) setError(caught as Error)
    }
    setSent(undefined)
  }
  return (
    <>
      <FolderSource packed={packed} root={deployment.source_config.root_directory ?? ''} onChange={setPacked} />
      {error && <Problem error={error} />}
      {archive && sent === undefined && (
        <div class={styles.submit}>
          <p>The folder is uploaded first. It is deployed only after you apply the plan.</p>
          <Button look="primary" onClick={() => void upload(archive)}>
            Upload and plan
          </Button>
        </div>
      )}
      {archive && sent !== undefined && (
        <ProgressBar
          text="Uploading the files"
          done={sent}
          total={archive.size}
          onCancel={() => running.current?.abort()}
        />
      )}
      {change && (
        <PlanDialog
          workspace={workspace}
          deployment={deployment}
          change={change}
          onClose={() => setChange(undefined)}
          onApplied={() => setPacked(undefined)}
        />
      )}
    </>
  )
}
