// Leads from the id of a run to its place in its trace.
import { useEffect } from 'preact/hooks'
import { useLocation } from 'wouter-preact'
import { isMissing, useRead } from '../../api/queries.ts'
import { ButtonLink } from '../../parts/button.tsx'
import { Empty, Skeleton } from '../../parts/panel.tsx'
import { Problem } from '../../parts/problem.tsx'
import { useCrumbs } from '../../router/crumbs.ts'
import { toAddress } from '../../router/links.tsx'
import type { ScreenProps } from '../screen-props.ts'
import { runPath } from './run-path.ts'

export default function RunPlace({ workspace, params }: ScreenProps<{ run: string }>) {
  useCrumbs({ label: 'Traces', to: '/traces' }, { label: 'Run' })
  return <FindRun workspace={workspace} id={params.run} project={undefined} />
}

type FindProps = { workspace: string; id: string; project: string | undefined }
export function FindRun({ workspace, id, project }: FindProps) {
  const { data, error } = useRead(workspace, 'GET /runs/{run_id}', {
    params: { run_id: id },
    query: { exclude_s3_stored_attributes: true, exclude_serialized: true },
  })
  const [, navigate] = useLocation()
  useEffect(() => {
    if (data) navigate(toAddress(runPath(data)), { replace: true })
  }, [data])
  if (error && !isMissing(error)) return <Problem error={error} />
  if (!error) return <Skeleton lines={9} />
  return (
    <Empty
      title="Trace not found"
      action={
        <ButtonLink href={toAddress(project ? `/traces/${project}` : '/traces')}>
          {project ? 'Open the project' : 'Open the traces'}
        </ButtonLink>
      }
    >
      Traces are kept for 14 days, or longer if their project or feedback extends the retention. The trace may also be
      in another workspace, or not have arrived yet.
    </Empty>
  )
}
