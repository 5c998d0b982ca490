// The annotation queues of the workspace: runs that people review, one by one.
import { useOffsetPages } from '../../api/offset-pages.ts'
import { explainMissing } from '../../api/permissions.ts'
import { plural } from '../../format/amount.ts'
import { Icon } from '../../parts/icon.tsx'
import { Ago } from '../../parts/time.tsx'
import { useFilter } from '../../router/links.tsx'
import { ResourceList } from '../resource-list.tsx'
import type { ScreenProps } from '../screen-props.ts'
import type { Queue } from './actions.ts'

export default function QueueList({ workspace, me }: ScreenProps) {
  const [name] = useFilter('name')
  const query = useOffsetPages(workspace, 'GET /annotation-queues', {
    query: { ...(name && { name_contains: name }) },
  })
  return (
    <ResourceList<Queue>
      title="Annotation"
      thing="queue"
      caption="Annotation queues, newest first"
      query={query}
      create={{
        label: 'Create queue',
        to: '/annotation/new',
        unavailable: explainMissing(me, workspace, 'annotation-queues:create'),
      }}
      filter={{ by: 'name' }}
      empty={{
        title: 'No queues yet',
        text:
          'People review the runs of a queue one by one, and give feedback on them. Add runs from the page of a ' +
          'trace.',
      }}
      columns={[
        {
          label: 'Queue',
          width: '40%',
          icon: () => <Icon name="pen" />,
          to: ({ id }) => `/annotation/${id}`,
          name: queue => queue.name,
          detail: ({ description }) => description || 'No description',
        },
        { label: 'Runs', cell: ({ total_runs }) => plural(total_runs, 'run'), detail: describeReviewers },
        {
          label: 'Feedback',
          width: '26%',
          isWideOnly: true,
          cell: ({ rubric_items }) => (rubric_items ?? []).map(({ feedback_key }) => feedback_key).join(', ') || '–',
        },
        { label: 'Changed', width: '96', isEnd: true, cell: ({ updated_at }) => <Ago time={updated_at} /> },
      ]}
    />
  )
}

const describeReviewers = ({ num_reviewers_per_item, assigned_reviewers, reviewer_access_mode }: Queue): string => {
  const each = plural(num_reviewers_per_item ?? (assigned_reviewers.length || 1), 'reviewer')
  return reviewer_access_mode === 'assigned' ? `${each} each, assigned` : `${each} each`
}
