// The templates that agents offer to this workspace, and what to do if there are none.
import { useEffect } from 'preact/hooks'
import { Card } from '../../parts/card.tsx'
import { Empty, Skeleton } from '../../parts/panel.tsx'
import { Problem } from '../../parts/problem.tsx'
import { useTemplates } from './agents.ts'
import { NoAgent } from './no-agent.tsx'
import { Options } from './options.tsx'

type TemplateProps = { workspace: string; chosen: string; onChoose: (template: string) => void }
export function TemplateSource({ workspace, chosen, onChoose }: TemplateProps) {
  const { data, error, refetch } = useTemplates(workspace)
  const templates = data?.resources ?? []
  const only = templates.length === 1 ? templates[0]!.name : undefined
  useEffect(() => {
    if (only && !chosen) onChoose(only)
  }, [only])
  return (
    <Card title="Template">
      {error && !data ? (
        <Problem error={error} onRetry={() => void refetch()} />
      ) : !data ? (
        <Skeleton lines={3} />
      ) : templates.length === 0 ? (
        <>
          <Empty title="No templates">
            Agents offer templates, and no agent has reported any. Use an image, a repository or a folder instead.
          </Empty>
          <NoAgent workspace={workspace} />
        </>
      ) : (
        <Options
          legend="Template"
          chosen={chosen}
          onChoose={onChoose}
          options={templates.map(({ name, description }) => ({ value: name, label: name, detail: description ?? '' }))}
        />
      )}
    </Card>
  )
}
