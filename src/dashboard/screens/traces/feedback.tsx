// The feedback of a tracing project: averages by key, and what was said last.
import { useOffsetPages } from '../../api/offset-pages.ts'
import { readAgain } from '../../api/read-again.ts'
import { formatCount, plural } from '../../format/amount.ts'
import { Card } from '../../parts/card.tsx'
import { Chip } from '../../parts/field.tsx'
import { Empty, Skeleton } from '../../parts/panel.tsx'
import { Problem } from '../../parts/problem.tsx'
import { Body, Note } from '../../parts/sections.tsx'
import { Cell, More, Row, Table } from '../../parts/table.tsx'
import { Link, useFilter } from '../../router/links.tsx'
import type { ScreenProps } from '../screen-props.ts'
import styles from './feedback.module.css'
import { formatScore, type Score, scoresOf } from './feedback-scores.ts'
import type { Project } from './project.ts'
import { ProjectFrame } from './project-frame.tsx'
import { FeedbackItem } from './run-feedback.tsx'
import { useSpan } from './since.ts'

export default function FeedbackPage({ workspace, params }: ScreenProps<{ project: string }>) {
  return (
    <ProjectFrame workspace={workspace} id={params.project} tab="/feedback">
      {project => <ProjectFeedback workspace={workspace} project={project} />}
    </ProjectFrame>
  )
}

const refresh = () => void Promise.all(['/feedback', '/runs', '/sessions'].map(readAgain))

function ProjectFeedback({ workspace, project }: { workspace: string; project: Project }) {
  const { span, from } = useSpan()
  const [key, setKey] = useFilter('key')
  const [comments, setComments] = useFilter('comments')
  const { items, error, hasNextPage, isFetchingNextPage, fetchNextPage, refetch } = useOffsetPages(
    workspace,
    'GET /feedback',
    {
      query: {
        session: [project.id],
        include_user_names: true,
        min_created_at: from,
        ...(key && { key: [key] }),
        ...(comments && { has_comment: true }),
      },
    },
    { everyMs: 15_000 },
  )
  const scores = [...scoresOf(project.feedback_stats), ...scoresOf(project.session_feedback_stats)]
  const isFiltered = key !== '' || comments !== ''
  if (items?.length === 0 && scores.length === 0 && !isFiltered)
    return (
      <Empty
        title={`No feedback in the last ${span.label}`}
        command={
          `curl ${location.origin}/feedback -H "X-Api-Key: $SLIPWAY_API_KEY" -H 'Content-Type: application/json' -d ` +
          `'{"run_id": "…", "key": "helpful", "score": 1}'`
        }
      >
        Feedback rates a run with a score, a value or a comment. Open a run to add feedback, send it from your
        application, or give people a feedback link.
      </Empty>
    )
  return (
    <div class={styles.stack}>
      {scores.length > 0 && (
        <Card title="By key" aside={`In the last ${span.label}`}>
          <Scores scores={scores} chosen={key} onChoose={next => setKey(next === key ? '' : next)} />
        </Card>
      )}
      <Card title="Entries">
        <div class={styles.views}>
          <Chip pressed={comments !== ''} onPress={() => setComments(comments ? '' : '1')}>
            With a comment
          </Chip>
          {key && (
            <Chip pressed onPress={() => setKey('')}>
              {key} ×
            </Chip>
          )}
        </div>
        {error && !items && <Problem error={error} onRetry={() => void refetch()} />}
        {!items && !error && <Skeleton lines={4} />}
        {items?.length === 0 && (
          <Body>
            <Note>{isFiltered ? 'No feedback matches.' : 'None.'}</Note>
          </Body>
        )}
        {items?.map(feedback => (
          <FeedbackItem
            key={feedback.id}
            feedback={feedback}
            onChanged={refresh}
            about={
              feedback.run_id ? (
                <Link to={`/traces/run/${feedback.run_id}`}>Open the run</Link>
              ) : (
                'About the whole project'
              )
            }
          />
        ))}
      </Card>
      {hasNextPage && <More isBusy={isFetchingNextPage} onMore={() => void fetchNextPage()} />}
    </div>
  )
}

type ScoresProps = { scores: Score[]; chosen: string; onChoose: (key: string) => void }
const Scores = ({ scores, chosen, onChoose }: ScoresProps) => (
  <Table
    caption="Feedback by key"
    columns={[
      { label: 'Key', width: '26%' },
      { label: 'Average' },
      { label: 'Range' },
      { label: 'Values', width: '30%' },
      { label: 'Given', width: '96', isEnd: true },
    ]}
  >
    {scores.map(({ key, stats: { n, avg, min, max, values, errors } }) => (
      <Row key={key}>
        <Cell>
          <Chip pressed={chosen === key} onPress={() => onChoose(key)}>
            {key}
          </Chip>
        </Cell>
        <Cell>{avg === null ? '–' : <b>{formatScore(avg)}</b>}</Cell>
        <Cell isWideOnly>{min == null || max == null ? '–' : `${formatScore(min)} to ${formatScore(max)}`}</Cell>
        <Cell isWideOnly detail={Boolean(errors) && `${plural(errors ?? 0, 'evaluation')} failed`}>
          {Object.entries(values ?? {})
            .sort(([, a], [, b]) => b - a)
            .slice(0, 5)
            .map(([value, count]) => `${value} ${formatCount(count)}`)
            .join(', ') || '–'}
        </Cell>
        <Cell isEnd>{formatCount(n)}</Cell>
      </Row>
    ))}
  </Table>
)
