"""What differs from the papers, and why: a remark on each figure, whatever its numbers are."""

_FEATURES = (
    "Where 265 features are stated, these are **not the paper's data**: it has all 561, and the "
    "archive at hand only those of the time domain."
)
_HAR = f"On UCI HAR. {_FEATURES}"
_MNIST = "On MNIST, all 784 pixels."
_SCALED = "HAR's values are scaled from [−1, 1] to [0, 1], for every model alike."
_UNTRIED = (
    "**Before this release it never ran on the real data**, only on small files in its layout."
)
_DRIVING = (
    f"{_UNTRIED} The papers state neither window nor step of the tables, nor what was tested; here "
    "a table covers 120 s, the next begins 10 s later, and each driver is tested in turn, with "
    "devices that learned the drives of all others, on all their roads: one device their normal "
    "ones, the other their aggressive ones. It is tested on the roads on which it drove in both "
    "styles. Lines that repeat a time are left out, and noted; drowsy drives are not read. The "
    "mean is that of the drivers."
)
_PAIRS = (
    "Mean ROC-AUC over as many trials as stated for each model; the paper has 50 of each "
    "(`--trials 50 --networks 50`). Rows are device A's patterns, columns device B's. The models "
    "with patterns are this project's own: one for each pattern, or three for each. The paper's "
    "values are in pictures only, and it prints no means. Not stated there: BP-NN3-FL's epochs a "
    "round (here one), Adam's rate (0.001: with a tenth of it BP-NN3-FL is better, see `rounds`), "
    "and which device has which rows where both know the same pattern (half each; means leave "
    "those out). The best of the five is that of the means over the trials that each has."
)
_OS_ELM = (
    "OS-ELM has a ridge of 0.001, where the paper has none; weights and biases are uniform between "
    "−1 and 1."
)
_DAEF = (
    "DAEF is another paper's (arXiv 2206.05136), of which only the beginning was at hand: what was "
    "taken as its method is said in `papers.md`. Its layers have (Ñ, 2Ñ) or (Ñ/2, Ñ) units for the "
    "paper's Ñ. Both shapes are reported, and neither is chosen; but what they and two others come "
    "to was seen on test rows of one split (trial 0 of `daef`, 12 pairs of HAR's, four digits) "
    "before."
)
_TUNING = (
    "Units and activation of OS-ELM by 10-fold cross-validation for ROC-AUC on the rows to learn "
    "from, at most 1,000 of each pattern. The paper states neither its candidates nor what was in "
    "a fold; networks are not tuned. Before and after are on the rows to test with, which decided "
    "nothing."
)
_ONE_MAP = (
    "One of the maps of `har-pairs` or `mnist-pairs`, where its numbers are, with the trials of "
    "each model, and more is said. Networks (BP-NN3, BP-NN5, BP-NN3-FL) have a tenth of the "
    "trials, unless `--networks` says otherwise."
)
_ONE_RUN = "One run with one seed."
_FED_ELMS = (
    "On MNIST, 87 principal components. The paper states neither the number of clients, nor C, "
    "nor the rounds, nor how Fed-NN begins: 56 clients, all of them in each round, 5 rounds where "
    "no other number is stated, and a network that was trained on the initial batch. Each client "
    "has 500 images of each of two digits, so that all digits come alike: where they do not, see "
    "`imbalanced`."
)
_MLMG = (
    f"{_ONE_RUN} The paper does not state which digits each client has, nor its threshold; "
    "clients and thresholds are those of `papers.md`."
)
_NOT_AT_HAND = (
    "**Of the paper itself its abstract was at hand**, and what later papers say of it: what was "
    "taken from there, and what is this project's own, is said where the code is."
)
_POLICIES = (
    "`anomalous` is a device's own model, as it is once it knows the others; by `unknown`, with "
    "the same models, a row ranks by the lowest false-alarm rate at which it would be anomalous "
    "here and at all others that are asked. By distance: scaling and units as they are unless told."
)
_PRINTED = (
    "As printed: local models are grouped by their parameters, the model of its group answers in "
    "the place of each, and the lowest raw loss is the score."
)

_LEFT_OUT = (
    "A third of what each client has to learn from is learned by no model: it says where anomalous "
    "begins, so that few rows do not make a threshold of next to nothing."
)
_CELEBA = (
    f"{_UNTRIED} Faces are the middle square in grey, 32 × 32: the paper states neither the size "
    "of a picture nor the units. Of celebrities with three smiles 100 are drawn. Anomalies are "
    f"10 % of the test set of all clients together, as in the paper (121 and 14). {_LEFT_OUT}"
)
_DCASE = (
    f"{_UNTRIED} Rows are five stacked frames of 128 log-mel bands, eight of each recording, which "
    f"is judged by their mean: the paper states neither. {_LEFT_OUT}"
)
_TWO_LOCALS = (
    "One round. MLMG has two local models a client, which the paper does not state. Up to as many "
    "groups as clients; `chosen` is the silhouette's number, of up to 16."
)

TITLES = {
    "ito2020": "Ito 2020: on-device federated learning, driving",
    "ito2021": "Ito 2021: cooperative model update between edge devices",
    "fed-elms": "Fed-ELMS",
    "mlmg": "MLMG",
    "ito2019": "Ito 2019: the number of instances, tuned at run time",
    "onlad": "ONLAD: forgetting where what is normal changes",
    "sunaga2023": "Sunaga 2023: from a silent room to a noisy one",
}

REMARKS = {
    ("ito2020", "figure5"): _DRIVING,
    ("ito2021", "figure6"): _DRIVING,
    (
        "ito2021",
        "figure7",
    ): f"{_ONE_RUN} {_SCALED} {_HAR} {_OS_ELM} BP-NN3's losses have a scale of their "
    "own, as in the paper; it learned sitting and laying. The paper prints no numbers.",
    **{("ito2021", f"figure{n}"): f"{_ONE_MAP} {_SCALED} {_HAR}" for n in range(8, 13)},
    **{("ito2021", f"figure{n}"): f"{_ONE_MAP} {_MNIST}" for n in range(13, 18)},
    ("ito2021", "har-pairs"): f"{_PAIRS} {_OS_ELM} {_DAEF} {_SCALED} {_HAR}",
    ("ito2021", "har-tuning"): f"{_TUNING} {_SCALED} {_HAR}",
    ("ito2021", "mnist-pairs"): f"{_MNIST} {_PAIRS} {_OS_ELM} {_DAEF}",
    ("ito2021", "mnist-tuning"): f"{_MNIST} {_TUNING}",
    (
        "ito2021",
        "daef",
    ): f"Not in the paper. The trials are those of `har-pairs` and `mnist-pairs`. "
    f"{_DAEF} A device of DAEF sends a triangle for each layer and what a regression needs; the "
    "next layer waits until all have sent, so no device may come late, leave or be away, or all "
    f"begin again. {_OS_ELM} {_SCALED} {_HAR}",
    ("ito2021", "rounds"): f"{_ONE_RUN} {_SCALED} {_HAR} Not in the paper, in which BP-NN3-FL is "
    "about as good as BP-NN3: the same rounds where each device has a pattern of its own, as "
    "there, and where each has half of both; and other choices of what the paper leaves open. One "
    "trial of each, on the same split; no choice was made by it for the maps.",
    (
        "ito2021",
        "table4",
    ): "No data set. Medians of single calls on one thread, with random rows of 561 "
    "features: their values do not matter to the time. OS-ELM's merge is all of it: reading the "
    "message, checking that it is admissible, and solving for the new model. BP-NN3-FL's is a "
    "round's: reading two messages, averaging, and handing the mean to the network; the paper's R "
    "is 50. The paper used TensorFlow 1.12, this is PyTorch. A ratio "
    "is BP-NN3-FL's time by OS-ELM's, so that above 1 OS-ELM is faster. The network's prediction "
    "is also timed in NumPy, without what PyTorch's calls cost.",
    ("ito2021", "hardware"): "Not in the paper, which has times at two sizes (Table 4). One "
    "thread, float64, random rows. A multiplication stands for itself and the addition that comes "
    "with it. As printed: (12), (1), (15), (8) and (6) in NumPy, without any check. Ours check "
    "rows, and merging has the check that sums are admissible in it. By distance rows wait and "
    "are added 512 at a time; where n is far above Ñ those that wait are most of the memory. "
    "Microseconds are processor time, the mean of a call in the fastest of five turns, and at "
    "small sizes that of Python's calls. Bytes more are what a call holds at most beyond what was "
    "there.",
    (
        "ito2021",
        "figure18",
    ): f"{_ONE_RUN} {_SCALED} {_HAR} {_OS_ELM} A merge is exact: the sequential model "
    "is the merged one once it has learned all of Device-A's rows, and not before. The paper "
    'says "approximately 650" and not how close is close, nor how many rows Device-A had.',
    (
        "ito2021",
        "communication",
    ): "No data set. Sizes of real messages: one contribution (float64, one triangle "
    "of U) up and one down, against R = 50 messages of float32 weights up and 50 down. The paper "
    "prints no bytes. BP-NN3 has Table 3's hidden units, which on HAR are twice OS-ELM's.",
    ("ito2021", "digits"): f"{_ONE_RUN} Not in the paper. scikit-learn's digits, 8 × 8 pixels, "
    "which come with it. Four devices know one digit each, the other six are anomalies; then one "
    "device leaves. Differences are those of β, relative to its largest entry: rounding.",
    ("fed-elms", "figure4"): f"{_ONE_RUN} {_FED_ELMS}",
    ("fed-elms", "figure5"): f"Means over as many seeds as stated. {_FED_ELMS}",
    (
        "fed-elms",
        "table1",
    ): f"{_ONE_RUN} {_FED_ELMS} Seconds are processor time on one thread, of all clients "
    "and the server together.",
    (
        "fed-elms",
        "imbalanced",
    ): "On MNIST, 87 principal components. Means over as many seeds as stated, with the lowest and "
    "the highest. Not in the paper, "
    "which stresses imbalance and has clients of equal size: here each keeps 500 · r · q rows of "
    "each of its two digits, r drawn for the client and q for the digit, evenly on a logarithmic "
    "scale from 0.1 to 1. All learned the same rows: the initial batch that Fed-ELMS begins with "
    "is in both sums. The exact sum is the model of all rows in one place, and follows their "
    "frequencies; in the balanced sums a row of a digit weighs N/(10·N_c) by the counts of all "
    "clients together. Nothing was chosen by the test rows. Learned frequencies are those of the "
    "clients' rows: the accuracy is the mean of each digit's recall, weighted by them.",
    ("mlmg", "table2"): f"{_MNIST} {_MLMG} {_POLICIES} {_PRINTED} {_DAEF}",
    (
        "mlmg",
        "comparison",
    ): f"{_MNIST} {_MLMG} One round; `chosen` is the silhouette's number of groups.",
    (
        "mlmg",
        "fans",
    ): f"On the cooling fans' spectra. {_ONE_RUN} Not in the paper. Only 12 cm fans were "
    f"damaged. {_POLICIES} {_PRINTED} {_DAEF} A "
    "change of own AUC is against the device's first step, alone.",
    ("mlmg", "mnist-pairs"): f"{_MNIST} {_ONE_RUN} Ito 2021's pairs, by patterns and by policies. "
    f"{_POLICIES} {_DAEF}",
    ("mlmg", "har-pairs"): f"{_ONE_RUN} Ito 2021's pairs, by patterns and by policies. "
    f"{_POLICIES} {_DAEF} {_HAR}",
    ("mlmg", "assignment"): f"On MNIST, UCI HAR and the cooling fans. {_ONE_RUN} Not in the paper: "
    f"400 rows a label. {_FEATURES}",
    ("mlmg", "celeba"): _CELEBA,
    ("mlmg", "dcase"): _DCASE,
    ("mlmg", "comparison-celeba"): f"{_CELEBA} {_TWO_LOCALS}",
    ("mlmg", "comparison-dcase"): f"{_DCASE} {_TWO_LOCALS}",
    ("ito2019", "instances"): f"{_ONE_RUN} {_NOT_AT_HAND} Its data are drives; here they are HAR's "
    "activities and a fan's speeds, one after another and then all again. When an instance is "
    "added and when two are one is this project's reading, so three factors are shown and none is "
    f"chosen. By distance, scores are in units of their own. {_HAR}",
    ("onlad", "forgetting"): f"{_NOT_AT_HAND} Its data and its ways to judge are others. Rows are "
    "those of HAR in the order of the file, so people change within a phase; rows to judge are of "
    "other people. φ is the weight that a row keeps with each later one. Means over as many "
    f"orders of the activities as stated, with one layer. {_HAR}",
    ("sunaga2023", "rooms"): f"{_NOT_AT_HAND} The data are the paper's own. Losses are means over "
    "as many random layers as stated. There is one 12 cm fan in each room, so the peer is the same "
    "fan an earlier half of its recordings before: the best peer there can be; its own row "
    "is there as well.",
}
