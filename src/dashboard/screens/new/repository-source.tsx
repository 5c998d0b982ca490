// A repository of a git host that the workspace is connected to, and the branch that deploys.
import { useEffect, useState } from 'preact/hooks'
import { faultAt } from '../../api/faults.ts'
import { useRead } from '../../api/queries.ts'
import { Button, ButtonLink } from '../../parts/button.tsx'
import { Card } from '../../parts/card.tsx'
import { FilterField } from '../../parts/field.tsx'
import { CheckField, Fields, SelectField, TextField } from '../../parts/form.tsx'
import { Empty, Skeleton } from '../../parts/panel.tsx'
import { Problem } from '../../parts/problem.tsx'
import { toAddress } from '../../router/links.tsx'
import type { Choice, Draft } from './draft.ts'
import styles from './new.module.css'
import { Options } from './options.tsx'

const PAGE_SIZE = 25
const REPOSITORIES = 'GET /v1/integrations/forge/githost/{integration_id}/repos'

type RepositoryProps = Pick<Draft, 'configuration' | 'deploysPushes'> & {
  workspace: string
  choice: Choice
  faults: Map<string, string>
  onChoose: (values: Partial<Choice>) => void
  onChange: (values: Partial<Draft>) => void
}
export function RepositorySource(props: RepositoryProps) {
  const { workspace, choice, onChoose } = props
  const { data, error, refetch } = useRead(workspace, 'GET /v1/integrations/forge/githost/install', {})
  const hosts = data?.filter(({ state }) => state === 'active') ?? []
  const host = hosts.find(({ id }) => id === choice.integration) ?? hosts[0]
  if (error && !data) return <Problem error={error} onRetry={() => void refetch()} />
  if (!data)
    return (
      <Card title="Repository">
        <Skeleton lines={4} />
      </Card>
    )
  if (!host) return <NoHost isBroken={data.length > 0} />
  return (
    <Card
      title="Repository"
      aside={
        choice.repository && (
          <Button small onClick={() => onChoose({ repository: '' })}>
            Choose another
          </Button>
        )
      }
    >
      {hosts.length > 1 && !choice.repository && (
        <Fields>
          <SelectField
            label="Git host"
            value={host.id}
            options={hosts.map(({ id, name, base_url }) => ({ value: id, label: `${name} at ${base_url}` }))}
            onChange={integration => onChoose({ integration })}
          />
        </Fields>
      )}
      {choice.repository ? (
        <ChosenRepository {...props} />
      ) : (
        <RepositoryList key={host.id} workspace={workspace} integration={host.id} onChoose={onChoose} />
      )}
    </Card>
  )
}

const NoHost = ({ isBroken }: { isBroken: boolean }) => (
  <Card title="Repository">
    <Empty
      title={isBroken ? 'No git host is reachable' : 'No git host is connected'}
      action={
        <ButtonLink look="primary" href={toAddress('/integrations')}>
          {isBroken ? 'Open the git hosts' : 'Connect a git host'}
        </ButtonLink>
      }
    >
      {isBroken
        ? 'The connection was suspended or revoked at the git host. Reconnect it, then return to this page.'
        : 'Connect GitHub, GitLab or another git host, then return to this page. Every push can then deploy.'}
    </Empty>
  </Card>
)

type ListProps = { workspace: string; integration: string; onChoose: RepositoryProps['onChoose'] }
function RepositoryList({ workspace, integration, onChoose }: ListProps) {
  const [text, setText] = useState('')
  const [limit, setLimit] = useState(PAGE_SIZE)
  // Read one more than is shown, to know if there are more.
  const query = { limit: limit + 1, ...(text && { name_contains: text }) }
  const read = useRead(workspace, REPOSITORIES, { params: { integration_id: integration }, query })
  const [known, setKnown] = useState(read.data)
  useEffect(() => {
    if (read.data) setKnown(read.data)
  }, [read.data])
  const shown = read.data ?? known
  const filter = (value: string) => {
    setText(value)
    setLimit(PAGE_SIZE)
  }
  return (
    <>
      <div class={styles.filter}>
        <FilterField
          label="Filter repositories by name"
          placeholder="Filter by name"
          value={text}
          onChange={filter}
          hint="/"
        />
      </div>
      {read.error && <Problem error={read.error} onRetry={() => void read.refetch()} />}
      {!shown && !read.error && <Skeleton lines={5} />}
      {shown?.length === 0 && (
        <Empty title={text ? `No repository matches “${text}”` : 'No repositories'}>
          {text
            ? 'The installation may not have access to this repository at the git host.'
            : 'Grant the installation access to a repository at the git host, then return to this page.'}
        </Empty>
      )}
      {shown && shown.length > 0 && (
        <Options
          legend="Repository"
          chosen=""
          onChoose={url => {
            const { default_branch } = shown.find(one => one.url === url)!
            onChoose({ integration, repository: url, branch: default_branch })
          }}
          options={shown.slice(0, limit).map(({ url, owner, name, default_branch }) => ({
            value: url,
            label: `${owner}/${name}`,
            detail: default_branch,
          }))}
        />
      )}
      {shown && shown.length > limit && (
        <div class={styles.more}>
          <Button busy={read.isFetching} onClick={() => setLimit(limit * 2)}>
            Show more
          </Button>
        </div>
      )}
    </>
  )
}

function ChosenRepository({ choice, faults, configuration, deploysPushes, onChoose, onChange }: RepositoryProps) {
  const { repository, branch } = choice
  const inRepository = (path: string) => faultAt(faults, `source_revision_config.${path}`)
  return (
    <>
      <p class={styles.chosen}>
        {/^http/.test(repository) ? (
          <a href={repository} target="_blank" rel="noreferrer">
            {repository.replace(/^https?:\/\//, '')}
          </a>
        ) : (
          repository
        )}
      </p>
      <Fields>
        <TextField
          mono
          label="Branch"
          value={branch}
          onChange={value => onChoose({ branch: value })}
          fault={inRepository('repo_ref') ?? faultAt(faults, 'source_config.repo_url')}
          hint="A branch, a tag or a commit."
        />
        <TextField
          mono
          label="Runtime configuration"
          value={configuration}
          onChange={value => onChange({ configuration: value })}
          fault={inRepository('platform_config_path')}
          hint="The path in the repository. The file is optional."
        />
        <CheckField
          label="Deploy every push to this branch"
          checked={deploysPushes}
          onChange={checked => onChange({ deploysPushes: checked })}
          fault={faultAt(faults, 'source_config.build_on_push') ?? faultAt(faults, 'source_config.integration_id')}
        />
      </Fields>
    </>
  )
}
