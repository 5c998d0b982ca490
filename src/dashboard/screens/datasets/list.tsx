// The datasets of the workspace: examples to evaluate applications with.
import { useOffsetPages } from '../../api/offset-pages.ts'
import { explainMissing } from '../../api/permissions.ts'
import { formatCount, plural } from '../../format/amount.ts'
import { Icon } from '../../parts/icon.tsx'
import { Ago } from '../../parts/time.tsx'
import { useFilter } from '../../router/links.tsx'
import { ResourceList } from '../resource-list.tsx'
import type { ScreenProps } from '../screen-props.ts'

export default function DatasetList({ workspace, me }: ScreenProps) {
  const [name] = useFilter('name')
  const query = useOffsetPages(workspace, 'GET /datasets', {
    query: { sort_by: 'modified_at', ...(name && { name_contains: name }) },
  })
  return (
    <ResourceList
      title="Datasets"
      thing="dataset"
      caption="Datasets, the last changed first"
      query={query}
      create={{
        label: 'Create dataset',
        to: '/datasets/new',
        unavailable: explainMissing(me, workspace, 'datasets:create'),
      }}
      filter={{ by: 'name' }}
      empty={{
        title: 'No datasets yet',
        text:
          'A dataset has examples: inputs with their expected outputs. Add runs of a trace as examples, and ' +
          'evaluate your application on all of them.',
      }}
      columns={[
        {
          label: 'Dataset',
          width: '46%',
          icon: () => <Icon name="stack" />,
          to: ({ id }) => `/datasets/${id}`,
          name: dataset => dataset.name,
          detail: ({ description }) => description || 'No description',
        },
        { label: 'Examples', cell: ({ example_count }) => plural(example_count, 'example') },
        {
          label: 'Experiments',
          isWideOnly: true,
          cell: ({ session_count }) => formatCount(session_count),
          detail: ({ last_session_start_time: time }) =>
            time && (
              <>
                The last <Ago time={time} suffix=" ago" />
              </>
            ),
        },
        { label: 'Changed', width: '96', isEnd: true, cell: ({ modified_at }) => <Ago time={modified_at} /> },
      ]}
    />
  )
}
