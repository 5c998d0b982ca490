// A new deployment: from a template, a repository, an image or a folder to a plan, and from the plan to a URL.
import { useEffect, useRef, useState } from 'preact/hooks'
import { useSearch } from 'wouter-preact'
import { navigate } from 'wouter-preact/use-browser-location'
import { explainMissing } from '../../api/permissions.ts'
import { useCommands } from '../../commands/commands.ts'
import { Button } from '../../parts/button.tsx'
import { lazily } from '../../parts/lazily.tsx'
import { Problem } from '../../parts/problem.tsx'
import { Prose } from '../../parts/prose.tsx'
import { useCrumbs } from '../../router/crumbs.ts'
import { setFilters, toAddress } from '../../router/links.tsx'
import type { ScreenProps } from '../screen-props.ts'
import { addVariables, type Choice, type Draft, isChosen, suggestName, WAYS, type Way } from './draft.ts'
import { FolderSource, type PackedSource } from './folder-source.tsx'
import { ImageSource } from './image-source.tsx'
import styles from './new.module.css'
import { RepositorySource } from './repository-source.tsx'
import type { ReviewProps } from './review.tsx'
import { Settings } from './settings.tsx'
import { TemplateSource } from './template-source.tsx'
import { usePlan } from './use-plan.ts'
import type { Notice } from './variables.tsx'
import { WayLinks } from './ways.tsx'

const Review = lazily<ReviewProps>(() => import('./review.tsx'))

const CHOICES = [
  'template',
  'integration',
  'repository',
  'branch',
  'image',
  'listener',
] as const satisfies (keyof Choice)[]

/** The choices in the address, so that a link opens the same view. */
function useChoice(): [way: Way, choice: Choice, set: (values: Partial<Choice>) => void] {
  // `useSearch` only signals that the address has changed: its value is already decoded.
  useSearch()
  const params = new URLSearchParams(location.search)
  const from = params.get('from') as Way
  const choice = Object.fromEntries(CHOICES.map(name => [name, params.get(name) ?? ''])) as Choice
  return [WAYS.includes(from) ? from : 'template', choice, setFilters]
}

type Typed = Omit<Draft, keyof Choice | 'way' | 'name'> & { name: string | undefined }
const UNTYPED: Typed = {
  name: undefined,
  namespace: '',
  configuration: '',
  root: '',
  deploysPushes: true,
  variables: [],
  installCommand: '',
  buildCommand: '',
}

export default function NewDeploymentScreen({ workspace, me }: ScreenProps) {
  useCrumbs({ label: 'Deployments', to: '/deployments' }, { label: 'New deployment' })
  const [way, choice, setChoice] = useChoice()
  const [typed, setTyped] = useState(UNTYPED)
  const [packed, setPacked] = useState<PackedSource>()
  const [notice, setNotice] = useState<Notice>()
  const [isReviewed, setReviewed] = useState(false)
  const form = useRef<HTMLFormElement>(null)

  const suggested = suggestName({ ...choice, way, root: typed.root }, packed?.name ?? '')
  const draft: Draft = { ...typed, ...choice, way, name: typed.name ?? suggested }
  const hasFiles = packed?.archive !== undefined
  const checked = usePlan(draft, hasFiles)
  const { faults, error, plan, isCurrent } = checked
  const missing = explainMissing(me, workspace, 'deployments:create')
  const type = (values: Partial<Typed>) => setTyped(before => ({ ...before, ...values }))

  const takeVariables = (text: string, source: string) => {
    const added = addVariables(typed.variables, text, source)
    type({ variables: added.variables })
    setNotice(added.notice)
  }
  const review = () => {
    if (plan && isCurrent) setReviewed(true)
    else form.current?.querySelector<HTMLElement>('[aria-invalid="true"]')?.focus()
  }
  useCommands(
    WAYS.map(one => ({
      id: `from-${one}`,
      label: `New deployment from ${one === 'image' ? 'an' : 'a'} ${one}`,
      kind: 'action',
      run: () => setFilters({ from: one }),
    })),
  )

  const refused = way === 'folder' && packed?.isRefused ? REFUSED : undefined
  const isReady = isChosen({ ...choice, way }, hasFiles)
  useEffect(() => {
    if (isReady) Review.preload().catch(() => {})
  }, [isReady])
  return (
    <>
      <form
        ref={form}
        class={styles.form}
        onSubmit={event => {
          event.preventDefault()
          review()
        }}
        onKeyDown={event => {
          if (event.key !== 'Enter' || !(event.ctrlKey || event.metaKey)) return
          event.preventDefault()
          review()
        }}
      >
        <h1 class={styles.title}>New deployment</h1>
        <WayLinks chosen={way} />
        {way === 'template' && (
          <TemplateSource
            workspace={workspace}
            chosen={choice.template}
            onChoose={template => setChoice({ template })}
          />
        )}
        {way === 'repository' && (
          <RepositorySource
            workspace={workspace}
            choice={choice}
            faults={faults}
            configuration={typed.configuration}
            deploysPushes={typed.deploysPushes}
            onChoose={setChoice}
            onChange={type}
          />
        )}
        {way === 'image' && (
          <ImageSource faults={faults} image={choice.image} onChoose={image => setChoice({ image })} />
        )}
        {way === 'folder' && (
          <FolderSource
            packed={packed}
            root={typed.root}
            onChange={setPacked}
            onRoot={root => type({ root })}
            onVariables={text => takeVariables(text, '.env')}
          />
        )}
        {isReady && (
          <Settings
            workspace={workspace}
            draft={draft}
            suggested={suggested}
            faults={faults}
            notice={notice}
            onChoose={setChoice}
            onChange={type}
            onVariables={takeVariables}
          />
        )}
        {isReady && error && <Problem error={error} />}
        {isReady && <Faults faults={faults} way={way} />}
        {missing && <p class={styles.missing}>{missing}</p>}
        {isReady && (
          <div class={styles.submit}>
            <p role="status">{refused ?? describeCheck(checked)}</p>
            <Button type="submit" look="primary" hint="Ctrl Enter" unavailable={missing ?? refused} busy={!isCurrent}>
              Review the plan
            </Button>
          </div>
        )}
      </form>
      {isReviewed && checked.body && plan && (
        <Review
          workspace={workspace}
          draft={draft}
          plan={plan}
          body={checked.body}
          files={way === 'folder' ? packed : undefined}
          onClose={() => setReviewed(false)}
          onCreated={id => navigate(toAddress(`/new/${id}`))}
        />
      )}
    </>
  )
}

const REFUSED = 'The folder cannot be deployed. Its card says why.'

function describeCheck({ isCurrent, faults, error, plan }: ReturnType<typeof usePlan>): string {
  if (!isCurrent) return 'Checking'
  if (faults.size > 0) return faults.size === 1 ? 'One field needs a change.' : `${faults.size} fields need a change.`
  if (error) return 'The deployment cannot be created.'
  return plan ? 'Nothing is created until you confirm the plan.' : ''
}

/** Faults that no field above shows. */
function Faults({ faults, way }: { faults: Map<string, string>; way: Way }) {
  const others = [...faults].filter(([path]) => !isAtField(path, way))
  if (others.length === 0) return null
  return (
    <ul class={styles.faults} role="alert">
      {others.map(([path, text]) => (
        <li key={path}>
          <code>{path}</code> <Prose text={text} />
        </li>
      ))}
    </ul>
  )
}

const FIELDS = /^(name|secrets\.\d+(\..*)?|source_config\.(?!template_id).*|source_revision_config\..*)$/
const isAtField = (path: string, way: Way) => FIELDS.test(path) || (path === 'source' && way === 'image')
