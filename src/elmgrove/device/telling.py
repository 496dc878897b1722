"""What an agent says: in its log, in lines for programs, to recipients, a broker and metrics."""

from elmgrove.detector import Detector, Drift, Verdict
from elmgrove.device.metrics import AgentMetrics
from elmgrove.device.outlook import Outlook
from elmgrove.device.output import Output
from elmgrove.device.settings import Settings
from elmgrove.device.sink import Sink
from elmgrove.federation import Member
from elmgrove.reading import Point


class Telling:
    """Tells of each row, and of what is new without one: somebody said what an event was."""

    def __init__(
        self,
        settings: Settings,
        member: Member,
        metrics: AgentMetrics | None = None,
        sink: Sink | None = None,
    ) -> None:
        self._member = member
        self._metrics = metrics
        self._sink = sink
        self._output = Output(settings, member, sink)
        self._outlook = Outlook(member.detector)

    def go_on_with(self, detector: Detector) -> None:
        """Tells of another detector from now on."""
        self._outlook = Outlook(detector)

    def tell(self, where: str, verdict: Verdict, point: Point | None = None) -> Drift | None:
        """Tells of a row and of what is new with it; gives the drift that was found out."""
        news = self._member.detector.events.take_news()
        if self._metrics is not None:
            self._metrics.follow(verdict, news)
        if self._sink is not None:
            self._sink.follow(verdict)
        drift = self._outlook.follow(verdict, news)
        self._output.tell(where, verdict, news, drift, point)
        return drift

    def tell_news(self, where: str | None) -> bool:
        """Tells what nobody has told yet; says whether there was anything."""
        news = self._member.detector.events.take_news()
        self._outlook.tell(news)
        self._output.tell_news(where, news)
        return bool(news)

    def tell_missing(self) -> None:
        """Tells how many rows are missing before there are alarms, if that is another number."""
        self._outlook.tell_missing()

    def close(self, patience: float) -> None:
        """Closes the file, and delivers what waits, as much as it can in so many seconds."""
        self._output.close(patience)
