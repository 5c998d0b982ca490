// A log without lines, or without those of the filters.
import { Button } from '../../parts/button.tsx'
import { Empty } from '../../parts/panel.tsx'
import { setFilters } from '../../router/links.tsx'

export type NoLinesProps = { name: string; isFiltered: boolean }
export default function NoLines({ name, isFiltered }: NoLinesProps) {
  if (isFiltered)
    return (
      <Empty
        title="No line matches"
        action={
          <Button onClick={() => setFilters({ process: '', level: '', only: '', from: '', kind: '', revision: '' })}>
            Show all lines
          </Button>
        }
      >
        A link to this address has the filter.
      </Empty>
    )
  return (
    <Empty title="No lines yet" command={`slipway logs ${name} --follow`}>
      Build lines appear when a build starts, and runtime lines when the application writes to its output. To follow the
      log in a terminal:
    </Empty>
  )
}
