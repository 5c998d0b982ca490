// After a cancelled upload, a reload, or a failed build: the files of a deployment are chosen again.
import { useState } from 'preact/hooks'
import type { Deployment } from '../../format/state.ts'
import { Button } from '../../parts/button.tsx'
import { Problem } from '../../parts/problem.tsx'
import { FolderSource, type PackedSource } from './folder-source.tsx'
import styles from './new.module.css'
import type { UploadJob } from './upload-job.ts'

export type FilesProps = { deployment: Deployment; job?: UploadJob | undefined; onUpload: (archive: Blob) => void }
export default function FilesAgain({ deployment, job, onUpload }: FilesProps) {
  const [packed, setPacked] = useState<PackedSource>()
  const archive = packed?.archive
  return (
    <>
      {job?.error && <Problem error={job.error} onRetry={job.retry} />}
      <FolderSource packed={packed} root={deployment.source_config.root_directory ?? ''} onChange={setPacked} />
      {archive && (
        <div class={styles.submit}>
          <p>The folder becomes the next revision of {deployment.name}.</p>
          <Button look="primary" onClick={() => onUpload(archive)}>
            Upload and deploy
          </Button>
        </div>
      )}
    </>
  )
}
