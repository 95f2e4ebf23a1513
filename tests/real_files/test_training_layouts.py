"""Training tables in the layouts of public sources: `init` and `run` read them alike, or refuse.

Each row has the layout of a source, with values of our own: names and order of columns, separators,
quotes, dates and marks of missing values.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sweeps.drafting.draft import draft_for
from sweeps.errors import UserError
from trainables.data import TableRows, load_dataset
from trainables.export.raw_samples import read_raw

ROWS: Final = 60
Row = Callable[[int], str]


def text(*above: str, row: Row, end: str = "\n") -> str:
    return end.join([*above, *map(row, range(ROWS))]) + end


def some(i: int) -> float:
    """A number with at most two decimals, different in most rows."""
    return (i * 37 % 101) / 4


PLACE: Final = ('Rue "Haute", 5', '5" above lake', "forest")
CALLS: Final = ("[]", "\"['x', 'y']\"")
KIND: Final = ("rest", "walk", "run")
READ: Final = {
    # Movebank, download of a study: quoted words, times with milliseconds
    "movebank.csv": (
        text(
            "event-id,visible,timestamp,location-long,location-lat,ground-speed,sensor-type,"
            "individual-taxon-canonical-name,individual-local-identifier,behavioural-class",
            row=lambda i: (
                f"{9000000000 + 13 * i},true,2015-12-10 14:{i % 60:02}:00.000,{some(i)},5{i % 7}.5,"
                f'{some(i) / 2},"gps","Grus grus","crane {i % 12}",{KIND[i // 2 % 3]}'
            ),
        ),
        "behavioural-class",
        ("location-long", "location-lat", "ground-speed"),
        (),
    ),
    # Individual household electric power consumption (UCI): semicolons, "?", dates with slashes
    "household.csv": (
        text(
            "Date;Time;Global_active_power;Voltage;Sub_metering_1;class",
            row=lambda i: (
                f"{1 + i % 28}/12/2006;17:{i % 60:02}:00;?;?;?;{i % 3}"
                if i % 20 == 9
                else f"{1 + i % 28}/12/2006;17:{i % 60:02}:00;{some(i):.3f};23{i % 9}.84;"
                f"{i % 5}.000;{i % 3}"
            ),
            end="\r\n",
        ),
        "class",
        ("Global_active_power", "Voltage", "Sub_metering_1"),
        (),
    ),
    # Google Earth Engine, Export.table: an index, and GeoJSON in the last column
    "earth_engine.csv": (
        text(
            "system:index,B2,B3,B8,landcover,.geo",
            row=lambda i: (
                f'{i}_0,{some(i)},{i * 7 % 13},{i * 5 % 11},{i % 4},"{{""type"":""Point"",'
                f'""coordinates"":[{some(i)},{i}.5]}}"'
            ),
        ),
        "landcover",
        ("B2", "B3", "B8"),
        (),
    ),
    # Land-cover samples of AppEEARS: an id of the site, dates, coordinates
    "appeears.csv": (
        text(
            "Category,ID,Latitude,Longitude,Date,MODIS_Tile,MOD13Q1_061__250m_16_days_NDVI",
            row=lambda i: (
                f"{('crop', 'wood')[i // 3 % 2]},site{i % 15},4{i % 9}.25,-9{i % 7}.5,"
                f"2020-0{1 + i % 9}-01,h11v04,{some(i) / 100}"
            ),
        ),
        "Category",
        ("Latitude", "Longitude", "MOD13Q1_061__250m_16_days_NDVI"),
        (),
    ),
    # cBioPortal, data_clinical_sample.txt: four lines of comments, tabs, NA
    "clinical.tsv": (
        text(
            "#Patient Identifier\tSample Identifier\tSubtype\tMutation Count\tTMB",
            "#Patient identifier\tSample identifier\tSubtype, as published\tCount\tTMB",
            "#STRING\tSTRING\tSTRING\tNUMBER\tNUMBER",
            "#1\t1\t1\t1\t1",
            "PATIENT_ID\tSAMPLE_ID\tSUBTYPE\tMUTATION_COUNT\tTMB_NONSYNONYMOUS",
            row=lambda i: (
                f"P-{i // 2:04}\tP-{i // 2:04}-T{i % 2}\t{('LumA', 'Basal', 'Her2')[i % 3]}\t"
                f"{'NA' if i % 11 == 5 else i * 7 % 31}\t{some(i)}"
            ),
        ),
        "SUBTYPE",
        ("MUTATION_COUNT", "TMB_NONSYNONYMOUS"),
        (),
    ),
    # Qualtrics, export as CSV: questions and ids of the import below the header
    "qualtrics.csv": (
        text(
            "StartDate,Progress,ResponseId,Q1_age,Q2_site,outcome",
            'Start Date,Progress,Response ID,"How old are you?","Which site, mainly?",Outcome',
            ",".join(f'"{{""ImportId"":""QID{k}""}}"' for k in range(6)),
            row=lambda i: (
                f"2026-01-0{1 + i % 9} 10:00:00,{100 - i % 3},R_{i}x{i * i},{18 + i * 7 % 50},"
                f"{('North', 'South, East')[i % 5 > 2]!r},{('yes', 'no')[i % 2]}".replace("'", '"')
            ),
        ),
        "outcome",
        ("Progress", "Q1_age"),
        ("Q2_site",),
    ),
    # SPSS and Pew: a blank, or #NULL!, where an answer is missing; values are labels
    "survey.csv": (
        text(
            "QKEY,WEIGHT,AGE,INCOME,PARTY,VOTE_OUTCOME",
            row=lambda i: (
                f"{100260 + i},{some(i) + 0.1:.4f},{' ' if i % 9 == 4 else 20 + i % 60},"
                f"{'#NULL!' if i % 7 == 3 else i * 100 % 900},"
                f"{('Republican', 'Democrat', 'Something else', ' ')[i % 4]},{i % 2}"
            ),
        ),
        "VOTE_OUTCOME",
        ("WEIGHT", "AGE", "INCOME"),
        ("PARTY",),
    ),
    # Kaggle's Telco churn (IBM): blanks for numbers of new customers
    "churn.csv": (
        text(
            "customerID,gender,SeniorCitizen,tenure,TotalCharges,Churn",
            row=lambda i: (
                f"{i * 7919 % 10000:04}-VH{i},{('Female', 'Male')[i % 2]},{i % 3 // 2},{i % 24},"
                f"{f'{some(i) + 20:.2f}' if i % 24 else ' '},{('No', 'Yes')[i // 2 % 2]}"
            ),
        ),
        "Churn",
        ("SeniorCitizen", "tenure", "TotalCharges"),
        ("gender",),
    ),
    # DESeq2 counts and scikit-learn's fetch_openml to_csv: samples in rows, genes in columns
    "counts.tsv": (
        text(
            "sample\tENSG00000000003.15\tENSG00000000005.6\tcondition",
            row=lambda i: (
                f"GTEX-{i:03}\t{i * 31 % 97}\t{some(i):.1f}\t{('tumor', 'normal')[i % 2]}"
            ),
        ),
        "condition",
        ("ENSG00000000003.15", "ENSG00000000005.6"),
        (),
    ),
    # Wine quality (UCI): semicolons, quoted names with spaces
    "wine.csv": (
        text(
            '"fixed acidity";"pH";"quality"',
            row=lambda i: f"{some(i)};{3 + i % 7 / 10};{3 + i % 4}",
        ),
        "quality",
        ("fixed acidity", "pH"),
        (),
    ),
    # Excel in German: semicolons, decimal commas, a line sep=;
    "excel.csv": (
        "\ufeff"
        + text(
            "sep=;",
            "Messung;Temperatur;Zustand;",
            row=lambda i: (
                f"{i * 7 % 19};{str(some(i)).replace('.', ',')};{('gut', 'schlecht')[i % 2]};"
            ),
            end="\r\n",
        ),
        "Zustand",
        ("Messung", "Temperatur"),
        (),
    ),
    # SurveyMonkey: a question over several columns, whose options are in the second row
    "surveymonkey.csv": (
        text(
            'RespondentID,"Do you fly, and how?",,,Seat,Outcome',
            ",Window,Aisle,Both,Response,Response",
            row=lambda i: (
                f"{3126807211 + 13 * i},{('often', 'rarely')[i % 2]},{('yes', '')[i // 3 % 2]},"
                f"{('', 'both')[i // 4 % 2]},{('A', 'B', 'C')[i % 3]},{('good', 'bad')[i // 2 % 2]}"
            ),
        ),
        "Outcome",
        (),
        (*(f"Do you fly, and how?: {how}" for how in ("Window", "Aisle", "Both")), "Seat"),
    ),
    # R, write.table(sep = "\t"): the row names have no name
    "cars.tsv": (
        text(
            '"mpg"\t"cyl"\t"class"',
            row=lambda i: f'"Mazda {i}"\t{some(i)}\t{4 + 2 * (i % 3)}\t"{"ab"[i % 2]}"',
        ),
        "class",
        ("mpg", "cyl"),
        (),
    ),
    # Kaggle's breast cancer of Wisconsin: the header ends in a separator, the rows do not
    "cancer.csv": (
        text(
            "id,diagnosis,radius_mean,",
            row=lambda i: f"{842302 + 977 * i},{'MB'[i % 2]},{some(i)}",
        ),
        "diagnosis",
        ("radius_mean",),
        (),
    ),
    # TrackMate, spots of a track: short names, again, and units below the header
    "trackmate.csv": (
        text(
            "LABEL,ID,TRACK_ID,QUALITY,POSITION_X,FRAME,STATE",
            "Label,Spot ID,Track ID,Quality,X,Frame,State",
            "Label,Spot ID,Track ID,Quality,X,Frame,State",
            ",,,(quality),(pixel),,",
            row=lambda i: (
                f"ID{900 + i},{900 + i},{i // 3},{some(i)},{i * 7 % 31},{i % 3},"
                f"{('mitosis', 'rest')[i // 3 % 2]}"
            ),
        ),
        "STATE",
        ("QUALITY", "POSITION_X", "FRAME"),
        (),
    ),
    # GBIF, occurrence download: tabs in a file called csv, no quoting, several labels are missing
    "gbif.csv": (
        text(
            "gbifID\tspecies\tlocality\tdecimalLatitude\teventDate\tcountryCode\ttaxonRank",
            row=lambda i: (
                f"{4000000000 + 17 * i}\t{('Parus major', 'Turdus merula')[i % 2]}\t"
                f"{PLACE[i % 3]}\t{some(i)}\t"
                f"2019-0{1 + i % 9}-1{i % 9}T0{i % 9}:00:00\t{('NA', 'DE')[i // 2 % 2]}\tSPECIES"
            ),
        ),
        "species",
        ("decimalLatitude",),
        ("locality", "countryCode"),
    ),
    # eBird, basic dataset: X where birds were not counted; the lines end in a tab
    "ebird.tsv": (
        text(
            "GLOBAL UNIQUE IDENTIFIER\tCOMMON NAME\tOBSERVATION COUNT\tOBSERVATION DATE\t"
            "APPROVED\t",
            row=lambda i: (
                f"URN:CornellLabOfOrnithology:EBIRD:OBS{i * 7919}\t{('Mallard', 'Robin')[i % 2]}\t"
                f"{'X' if i % 6 == 0 else i % 5 + 1}\t2020-05-{1 + i % 28:02}\t{i // 2 % 2}\t"
            ),
        ),
        "APPROVED",
        (),
        ("COMMON NAME", "OBSERVATION COUNT"),
    ),
    # BirdCLEF, train_metadata.csv: lists of Python as text
    "birdclef.csv": (
        text(
            "primary_label,secondary_labels,type,latitude,rating,url,filename",
            row=lambda i: (
                f"{('barswa', 'comsan')[i % 2]},{CALLS[i // 2 % 2]},"
                f"['call'],{some(i)},{i % 9 / 2},https://xeno-canto.org/{i},a/XC{i}.ogg"
            ),
        ),
        "primary_label",
        ("latitude", "rating"),
        ("secondary_labels",),
    ),
    # SNAP (ESA), pixel extraction: lines of comments and an empty one, NaN
    "snap.tsv": (
        text(
            "# BEAM pixel extraction export table",
            "#",
            "# Created on:\t2026-11-29 10:00:00",
            "",
            "# Wavelength:\t\t\t443.0\t560.0",
            "",
            "ProdID\tCoordID\tDate(yyyy-MM-dd)\tB1\tB3\tlandcover",
            row=lambda i: (
                f"{i % 3}\t{i}\t2020-05-{1 + i % 28:02}\t{some(i) / 100}\t"
                f"{'NaN' if i % 11 == 3 else i * 5 % 11}\t{('urban', 'crop')[i // 2 % 2]}"
            ),
        ),
        "landcover",
        ("ProdID", "B1", "B3"),
        (),
    ),
    # Spectral libraries (ENVI, ECOSTRESS as a table): wavelengths name the columns
    "spectra.csv": (
        text("443,490,560,class", row=lambda i: f"{some(i)},{i % 7},{i % 11},{'ab'[i % 2]}"),
        "class",
        ("443", "490", "560"),
        (),
    ),
    # LimeSurvey: all quoted, codes and questions as names, one date of all anonymous answers
    "lime.csv": (
        "\ufeff"
        + text(
            '"id. Response ID";"submitdate. Date submitted";"G1Q1. How old are you?";'
            '"G1Q2[SQ001]. Which do you use? [Bus]";"G1Q3. Would you recommend us?"',
            row=lambda i: (
                f'"{i + 1}";"1980-01-01 00:00:00";"{i * 7 % 50}";"{("Ja", "Nein", "")[i % 3]}";'
                f'"{("Ja", "Nein")[i // 2 % 2]}"'
            ),
        ),
        "G1Q3. Would you recommend us?",
        ("G1Q1. How old are you?",),
        ("G1Q2[SQ001]. Which do you use? [Bus]",),
    ),
    # ANES: codes with their words
    "anes.csv": (
        text(
            "V200001,V201507x,V201231x,V202073",
            row=lambda i: (
                f"{200015 + 3 * i},{'-9. Refused' if i % 15 == 4 else i % 5},"
                f"{('1. Strong Democrat', '-8. Don’t know')[i % 2]},{i // 2 % 2 + 1}. Vote"
            ),
        ),
        "V202073",
        ("V200001",),
        ("V201507x", "V201231x"),
    ),
    # NHANES, from XPT by pandas: all codes are floats
    "nhanes.csv": (
        text(
            "SEQN,RIDAGEYR,BMXBMI,DIQ010",
            row=lambda i: (
                f"{109263 + i}.0,{i % 50}.0,{'' if i % 9 == 3 else some(i)},{1 + i // 2 % 2}.0"
            ),
        ),
        "DIQ010",
        ("SEQN", "RIDAGEYR", "BMXBMI"),
        (),
    ),
    # Bank statements and polls: thousands separators and percent are not numbers
    "polls.csv": (
        text(
            "party,votes,share,age,label",
            row=lambda i: f'{"abc"[i % 3]},"{1 + i % 9},{100 + i}",{i % 90}%,{some(i)},{i % 2}',
        ),
        "label",
        ("age",),
        ("party",),
    ),
}
"""The text of each file, its label, and its numeric and categorical features, as `init` says."""

REFUSED: Final = {
    # iris.data, adult.data, sonar.all-data (UCI): no header
    "iris.csv": (
        text(row=lambda i: f"{some(i)},3.{i % 5},1.4,0.2,Iris-{('setosa', 'virginica')[i % 2]}"),
        "has no header: its first line holds values",
    ),
    "adult.csv": (
        text(
            row=lambda i: (
                f"{i % 50 + 17}, {('Private', '?', 'State-gov')[i % 3]}, {i * 31 % 97}, "
                f"{('<=50K', '>50K')[i % 2]}"
            )
        ),
        "has no header: its first line holds values",
    ),
    # WISDM 1.1: no header, a semicolon ends each line
    "wisdm.csv": (
        text(
            row=lambda i: f"{i % 3 + 33},{('Jogging', 'Walking')[i % 2]},{i * 31 % 97},{some(i)};"
        ),
        "has no header: its first line holds values",
    ),
    # ActiGraph, ActiLife 6: ten lines about the device above the header
    "actigraph.csv": (
        text(
            "------------ Data File Created By ActiGraph GT3X+ ActiLife v6.13.3 -----------",
            "Serial Number: CLE2B2013XXXX",
            "--------------------------------------------------",
            "Axis1,Axis2,Activity",
            row=lambda i: f"{i},{some(i)},{KIND[i % 3]}",
        ),
        "if the table begins further down, remove the lines above it",
    ),
    "actigraph_padded.csv": (
        text(
            "------------ Data File Created By ActiGraph Link -----------,,,",
            "Download Date 2/14/2019,,,",
            "Timestamp,X,Y,Activity",
            row=lambda i: f"2019-02-14T08:58:{i % 60:02},{i},{some(i)},{KIND[i % 3]}",
        ),
        "only 1 of 4 columns have a name; if the table begins further down",
    ),
    # MOTChallenge, det.txt: no header
    "mot.csv": (
        text(row=lambda i: f"{i // 4 + 1},{i % 4},{some(i)},{some(i)},55.1,120.4,0.9,-1,-1,-1"),
        "has no header: its first line holds values",
    ),
    # DeepLabCut: scorer, body parts and coordinates name the columns
    "dlc.csv": (
        text(
            "scorer,DLC_net,DLC_net,DLC_net",
            "bodyparts,nose,nose,nose",
            "coords,x,y,likelihood",
            row=lambda i: f"{i},{some(i)},{some(i)},0.99",
        ),
        "has 3 columns called 'DLC_net'; rename all but one",
    ),
    # seaborn's brain_networks: several rows of names
    "networks.csv": (
        text("network,1,1,2", "hemi,lh,rh,lh", row=lambda i: f"{i},{some(i)},{i % 7},{i % 2}"),
        "has 2 columns called '1'; rename all but one",
    ),
}


@pytest.mark.parametrize("name", READ)
def test_layouts_that_init_and_run_read_alike(name: str, tmp_path: Path) -> None:
    content, label, numeric, categorical = READ[name]
    path = tmp_path / name
    path.write_text(content, encoding="utf-8", newline="")
    draft = draft_for(str(path)).dataset
    assert draft["label"] == label
    dataset = load_dataset(draft.pop("name"), seed=0, **draft)
    samples = dataset.samples
    assert isinstance(samples, TableRows)
    assert [each for each in samples.numeric if "." not in each or each in numeric] == [*numeric]
    assert samples.categorical == categorical
    count = len(dataset.train) + len(dataset.validation) + len(dataset.test)
    assert count == len(read_raw(samples, path)[0]) == ROWS


@pytest.mark.parametrize("name", REFUSED)
def test_layouts_that_are_refused_in_one_line(name: str, tmp_path: Path) -> None:
    content, reason = REFUSED[name]
    path = tmp_path / name
    path.write_text(content, newline="")
    for read in (
        lambda: draft_for(str(path)),
        lambda: load_dataset("csv", seed=0, train=path, label="x"),
    ):
        with pytest.raises((UserError, ValueError), match=reason) as caught:
            read()
        assert name in str(caught.value)
        assert len(str(caught.value).splitlines()) <= 1 + ("rename" in reason)  # and how to exclude


def test_a_test_file_without_labels_is_for_predict(tmp_path: Path) -> None:
    rows = [f"{some(i)},{i * 7 % 11},{i % 3},{'' if i == 5 else i % 2}" for i in range(ROWS)]
    (tmp_path / "train.csv").write_text("\n".join(["a,b,cnt,label", *rows]))
    (tmp_path / "test.csv").write_text("\n".join(["a,b,cnt", *(row[:-2] for row in rows)]))
    draft = draft_for(str(tmp_path))
    assert "test" not in draft.dataset
    assert draft.dataset["on_bad_sample"] == "skip"
    skipped, unlabelled = draft.comments[:2]
    assert skipped == "1 row without label: skipped"
    assert unlabelled.startswith("test.csv has no labels in a column label: it is no test split")
    (tmp_path / "test.csv").write_text("\n".join(["a,b,label", *(f"{i},1,1" for i in range(9))]))
    draft = draft_for(str(tmp_path))
    assert draft.dataset["exclude"] == ["cnt"]
    assert len(load_dataset(draft.dataset.pop("name"), seed=0, **draft.dataset).test) == 9


def test_shards_and_splits_as_hugging_face_writes_them(tmp_path: Path) -> None:
    def write(name: str, first: int, labels: Sequence[int]) -> None:
        rows = {"a": [(first + i) * 37 % 101 for i in range(len(labels))], "label": labels}
        pq.write_table(pa.table(rows), tmp_path / name)

    for shard in range(2):
        write(f"train-{shard:05}-of-00002.parquet", 40 * shard, [0, 1] * 20)
    write("validation-00000-of-00001.parquet", 80, [0, 1] * 5)
    write("test-00000-of-00001.parquet", 90, [-1] * 10)  # hidden
    (tmp_path / "dataset_info.json").write_text("{}")
    options = draft_for(str(tmp_path)).dataset
    assert options["train"] == str(tmp_path / "train-*.parquet")
    assert options["validation"] == str(tmp_path / "validation-*.parquet")
    assert "test" not in options
    dataset = load_dataset(options.pop("name"), seed=0, **options)
    assert len(dataset.train) + len(dataset.test) == 80
    assert len(dataset.validation) == 10
